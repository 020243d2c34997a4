//! The clock: its reads and its maintenance.

use std::time::Duration;
use std::{process, thread};

use pvclock::shared::Aligned;

use crate::machine::counter;
use crate::machine::instant::Instant;
use crate::machine::kernel_clock::monotonic_ns;
use crate::machine::settings::Settings;
use crate::machine::sole::{Sole, SoleGuard};
use crate::machine::status::MachineClockStatus;
use crate::machine::system::SystemClocks;
use crate::machine::system_time::SystemTime;
use crate::timeline::maintenance::Maintenance;
use crate::timeline::published::Published;
use crate::timeline::view::{SegmentPlace, TimeOfDay, TimelineView};

/// A clock that counts the TSC and follows the system's.
///
/// Its time is CLOCK_MONOTONIC's, computed ahead in segments that never change
/// once they exist. No thread ever sees time go back, whichever
/// thread's time it is compared with (as far as the CPU orders its own RDTSC:
/// see [`Clock::now`]), and no read waits for another thread. Time goes back
/// only with a TSC that is set back by less than two segments: that cannot be
/// distinguished from an earlier read, until the next segment is due.
///
/// **Which thread samples the system?** By default the reader that finds three
/// quarters of the newest segment over: a few µs for one read in 20 ms, and no
/// thread and no wake-up in a program that does not read. An event loop may
/// call [`Clock::maintain`] instead, or a program start a
/// [`Maintainer`](crate::Maintainer); both act when half of it is over, so that
/// readers never have to.
///
/// **When the TSC cannot be trusted**, or disagreed with the system, reads are
/// system calls until it has been measured again: see [`MachineClockStatus`].
#[derive(Debug)]
pub struct Clock {
    published: Published<Aligned>,
    maintained: Sole<Maintained>,
    settings: Settings,
}

/// What only the maintaining thread uses.
#[derive(Debug)]
struct Maintained {
    maintenance: Maintenance,
    system: SystemClocks,
}

/// Sleep between attempts to lock: a round of maintenance takes some µs.
const RETRY_LOCK: Duration = Duration::from_micros(50);

impl Clock {
    /// A clock with [`Settings::DEFAULT`]. The first read begins to measure
    /// the TSC; for the 10 ms that takes, reads are the system's.
    pub const fn new() -> Self {
        Self::with_settings(&Settings::DEFAULT)
    }

    /// A clock with settings.
    pub const fn with_settings(settings: &Settings) -> Self {
        Self {
            published: Published::empty(),
            maintained: Sole::new(Maintained::new(settings, 0)),
            settings: *settings,
        }
    }

    /// The time.
    ///
    /// RDTSC is read without a fence, so the CPU may read it some 100 cycles
    /// before the instruction in front of the call, or after the one behind:
    /// as with every fast clock. Where times of two threads are compared, and
    /// memory shows which came first, [`Clock::now_ordered`] agrees with that.
    #[inline]
    pub fn now(&self) -> Instant {
        match self.published.quick_ns(counter::read) {
            Some(ns) => Instant::from_nanos(ns),
            None => self.now_slowly(),
        }
    }

    /// The time, not before anything that this thread has observed of others:
    /// an LFENCE before RDTSC, as in the vDSO.
    #[inline]
    pub fn now_ordered(&self) -> Instant {
        match self.published.quick_ns(counter::read_ordered) {
            Some(ns) => Instant::from_nanos(ns),
            None => self.now_slowly(),
        }
    }

    /// The time of day, with its error.
    #[inline]
    pub fn system_time(&self) -> SystemTime {
        match self.published.quick_time_of_day(counter::read) {
            Some(time) => SystemTime::new(&time),
            None => self.system_time_slowly(),
        }
    }

    /// Creates the next segment if due, and returns when to call again. Of
    /// several threads one does it.
    pub fn maintain(&self) -> Duration {
        let (count, view) = self.published.view();
        if !view.is_half_over(counter::read_ordered()) {
            return until_due(&view);
        }
        self.step_unless_locked(count);
        until_due(&self.published.view().1)
    }

    /// The clock's state. Waits for a running round of maintenance.
    pub fn status(&self) -> MachineClockStatus {
        MachineClockStatus::new(&self.lock().maintenance)
    }

    #[cold]
    #[inline(never)]
    fn now_slowly(&self) -> Instant {
        Instant::from_nanos(self.read_slowly().monotonic_ns)
    }

    #[cold]
    #[inline(never)]
    fn system_time_slowly(&self) -> SystemTime {
        SystemTime::new(&self.read_slowly())
    }

    /// A read that found maintenance due.
    fn read_slowly(&self) -> TimeOfDay {
        loop {
            let (count, view) = self.published.view();
            match view.place(counter::read_ordered()) {
                SegmentPlace::On(ns) => return view.time_of_day(ns),
                SegmentPlace::Due(ns) => {
                    self.step_unless_locked(count);
                    return view.time_of_day(ns);
                }
                SegmentPlace::Off => {}
            }
            if monotonic_ns() >= view.retry_ns && self.step_unless_locked(count) {
                continue;
            }
            // The system's time is this read's if no segment was published
            // meanwhile: later ones begin above it.
            let ns = monotonic_ns();
            if self.published.is_newest(count) {
                return view.off(ns);
            }
        }
    }

    /// Whether a round of maintenance was made, by this thread or by another
    /// since publication `count`.
    fn step_unless_locked(&self, count: u32) -> bool {
        let Some(mut maintained) = self.try_lock() else { return false };
        if self.published.is_newest(count) {
            self.step(&mut maintained);
        }
        true
    }

    fn step(&self, maintained: &mut Maintained) {
        let reading = maintained.system.read();
        self.published.publish(&maintained.maintenance.step(&reading));
    }

    /// The maintaining thread's state, once no other thread holds it.
    fn lock(&self) -> SoleGuard<'_, Maintained> {
        loop {
            if let Some(maintained) = self.try_lock() {
                return maintained;
            }
            // Not a yield: a real-time thread does not yield to lower priorities.
            thread::sleep(RETRY_LOCK);
        }
    }

    /// The maintaining thread's state, unless another thread holds it. A child
    /// that was forked meanwhile starts again, above all times returned so far;
    /// after a panic the next round restores it.
    fn try_lock(&self) -> Option<SoleGuard<'_, Maintained>> {
        let replacement = || {
            self.published.repair();
            Maintained::new(&self.settings, self.published.view().1.floor_ns)
        };
        self.maintained.try_hold(process::id(), replacement)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Maintained {
    /// Nothing known, except that no time below this may be returned.
    const fn new(settings: &Settings, floor_ns: u64) -> Self {
        Self {
            maintenance: Maintenance::new(
                settings.limits(),
                settings.unsynchronised_ns(),
                floor_ns,
            ),
            system: SystemClocks::new(settings.vmclock, settings.clockbound),
        }
    }
}

/// Until half of the newest segment is over, or the next attempt. A millisecond
/// where neither is ahead: another thread is maintaining.
fn until_due(view: &TimelineView) -> Duration {
    let TimelineView { newest, retry_ns, .. } = view;
    let tsc = counter::read_ordered();
    let until_ns = if newest.cycles == 0 {
        retry_ns.saturating_sub(monotonic_ns())
    } else {
        let half = newest.start_tsc.wrapping_add(newest.cycles / 2);
        let cycles = half.wrapping_sub(tsc).cast_signed().max(0).cast_unsigned();
        newest.rate.ns(cycles.min(2 * newest.cycles))
    };
    Duration::from_nanos(if until_ns == 0 { 1_000_000 } else { until_ns })
}

// The one clock of a program that needs no settings.

static SHARED: Clock = Clock::new();

/// The clock behind [`Instant::now`] and [`SystemTime::now`].
pub fn shared() -> &'static Clock {
    &SHARED
}

impl Instant {
    /// Now, by the [shared clock](shared).
    #[inline]
    pub fn now() -> Self {
        shared().now()
    }

    /// How long ago it was, by the shared clock.
    #[inline]
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }
}

impl SystemTime {
    /// Now, by the [shared clock](shared).
    #[inline]
    pub fn now() -> Self {
        shared().system_time()
    }
}
