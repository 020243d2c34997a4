//! The clock: reads, and who sees to it.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use pvclock::shared::Aligned;

use crate::counter;
use crate::instant::Instant;
use crate::status::Status;
use crate::system::{System, monotonic_ns};
use crate::system_time::SystemTime;
use crate::timeline::maintenance::Maintenance;
use crate::timeline::published::{Place, Published, TimeOfDay, View};
use crate::timeline::segment::LONGEST_NS;
use crate::timeline::steering::Limits;

/// How a clock is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a segment of time is. The system is looked at about once a
    /// segment, while somebody reads; a change of its rate is followed from
    /// the end of the segment on. At least 1 ms, at most 4 s.
    pub segment: Duration,
    /// How much faster or slower than the system the clock may go to meet it,
    /// ppm: the 500 that the kernel itself slews by.
    pub slew_ppm: u32,
    /// How far CLOCK_REALTIME may be off when nobody vouches for it; `None`
    /// says that it may be anything.
    pub unsynchronised_error: Option<Duration>,
    /// Where the VMClock page is, if the host offers one.
    pub vmclock: &'static str,
}

impl Settings {
    /// A segment of 20 ms, a slew of 500 ppm, no word on a clock for which
    /// nobody vouches, and `/dev/vmclock0`.
    pub const DEFAULT: Self = Self {
        segment: Duration::from_millis(20),
        slew_ppm: 500,
        unsynchronised_error: None,
        vmclock: "/dev/vmclock0",
    };

    const fn limits(&self) -> Limits {
        let wanted = self.segment.as_nanos();
        let most = LONGEST_NS as u128;
        let segment_ns = if wanted < 1_000_000 {
            1_000_000
        } else if wanted > most {
            LONGEST_NS
        } else {
            wanted as u64
        };
        let slew_ppm = if self.slew_ppm > 100_000 { 100_000 } else { self.slew_ppm };
        Limits { segment_ns, slew_ppm }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A clock that counts the TSC and follows the system's.
///
/// Its time is CLOCK_MONOTONIC's, laid out ahead in segments that never
/// change once they are there. No thread ever sees time go back, whichever
/// thread's time it is compared with (as far as the CPU orders its own RDTSC:
/// see [`Clock::now`]), and no read waits for another thread. Time goes back
/// only with a TSC that somebody sets back by less than two segments: that
/// cannot be told from having read it earlier, until the next segment is due.
///
/// **Who looks at the system?** By default the reader that finds three
/// quarters of the newest segment over: a few µs for one read in 20 ms,
/// and no thread and no wake-up in a program that does not read. An event
/// loop may call [`Clock::maintain`] instead, or a program start a
/// [`Keeper`](crate::Keeper); both come at the half, so that readers find
/// nothing left to do.
///
/// **When the TSC cannot be trusted**, or was seen to disagree with the
/// system, reads are system calls until it has been measured anew: see
/// [`Status`].
#[derive(Debug)]
pub struct Clock {
    published: Published<Aligned>,
    kept: Mutex<Kept>,
}

/// What the maintaining thread alone uses.
#[derive(Debug)]
struct Kept {
    maintenance: Maintenance,
    system: System,
}

static SHARED: Clock = Clock::new();

/// The clock behind [`Instant::now`] and [`SystemTime::now`].
pub fn shared() -> &'static Clock {
    &SHARED
}

impl Clock {
    /// A clock with [`Settings::DEFAULT`]. The first read begins to measure
    /// the TSC; for the 10 ms that takes, reads are the system's.
    pub const fn new() -> Self {
        Self::with(&Settings::DEFAULT)
    }

    /// A clock with settings.
    pub const fn with(settings: &Settings) -> Self {
        let unsynchronised_ns = match settings.unsynchronised_error {
            Some(error) => Some(error.as_nanos() as u64),
            None => None,
        };
        Self {
            published: Published::empty(),
            kept: Mutex::new(Kept {
                maintenance: Maintenance::new(settings.limits(), unsynchronised_ns),
                system: System::new(settings.vmclock),
            }),
        }
    }

    /// The time.
    ///
    /// RDTSC is read without a fence, so the CPU may read it some 100 cycles
    /// before the instruction in front of the call, or after the one behind:
    /// what every fast clock does. Where a time is compared with another
    /// thread's, and the two threads tell each other through memory which
    /// came first, [`Clock::now_ordered`] is the one that agrees.
    #[inline]
    pub fn now(&self) -> Instant {
        match self.published.quick_ns(counter::read) {
            Some(ns) => Instant::from_nanos(ns),
            None => self.now_slowly(),
        }
    }

    /// The time, not before everything that this thread has seen of others:
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
            Some(time) => SystemTime::of(&time),
            None => self.system_time_slowly(),
        }
    }

    /// Sees to it that the next segment is there, if it is time to, and says
    /// when to come again. Of several threads one does it; the others are
    /// told to come again as well.
    pub fn maintain(&self) -> Duration {
        let (_, view) = self.published.view();
        let tsc = counter::read_ordered();
        if let Some(mut kept) = self.try_keep() {
            if kept.maintenance.steering.wants_step(tsc) {
                self.step(&mut kept);
            }
            return kept.next_due();
        }
        Duration::from_nanos(view.newest.rate.ns(view.newest.cycles / 2).max(1_000_000))
    }

    /// How the clock stands. Waits for a round of maintenance that is under
    /// way.
    pub fn status(&self) -> Status {
        let kept = self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Status::of(&kept.maintenance)
    }

    #[cold]
    #[inline(never)]
    fn now_slowly(&self) -> Instant {
        Instant::from_nanos(self.read_slowly().0)
    }

    #[cold]
    #[inline(never)]
    fn system_time_slowly(&self) -> SystemTime {
        let (monotonic_ns, view) = self.read_slowly();
        SystemTime::of(&TimeOfDay {
            monotonic_ns,
            realtime_offset_ns: view.realtime_offset_ns,
            error_ns: view.error_ns.unwrap_or(u64::MAX),
            error_at_ns: view.error_at_ns,
        })
    }

    /// A read that found something to see to. The time, and the view it is
    /// from.
    fn read_slowly(&self) -> (u64, View) {
        loop {
            let (count, view) = self.published.view();
            match view.place(counter::read_ordered()) {
                Place::On(ns) => return (ns, view),
                Place::Due(ns) => {
                    self.step_if_nobody_does(count);
                    return (ns, view);
                }
                Place::Off => {}
            }
            if monotonic_ns() >= view.retry_ns && self.step_if_nobody_does(count) {
                continue;
            }
            // What the system says is this read's time if no segment came
            // meanwhile: those that come later begin above it.
            let ns = monotonic_ns();
            if self.published.is_newest(count) {
                return (ns.max(view.floor_ns), view);
            }
        }
    }

    /// Whether a round of maintenance was made, by this thread or by another
    /// since publication `count`.
    fn step_if_nobody_does(&self, count: u32) -> bool {
        let Some(mut kept) = self.try_keep() else { return false };
        if self.published.is_newest(count) {
            self.step(&mut kept);
        }
        true
    }

    fn step(&self, kept: &mut Kept) {
        let reading = kept.system.read();
        self.published.publish(&kept.maintenance.step(&reading));
    }

    /// The maintaining thread's part, unless another thread has it. One that
    /// panicked has left what the next round makes good.
    fn try_keep(&self) -> Option<MutexGuard<'_, Kept>> {
        match self.kept.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    /// Until half of the newest segment is over, or the next try.
    fn next_due(&self) -> Duration {
        let View { newest, retry_ns, .. } = self.maintenance.view;
        let tsc = counter::read_ordered();
        let until_ns = if newest.cycles == 0 {
            retry_ns.saturating_sub(monotonic_ns())
        } else {
            let half = newest.start_tsc.wrapping_add(newest.cycles / 2);
            let cycles = half.wrapping_sub(tsc).cast_signed().max(0).cast_unsigned();
            newest.rate.ns(cycles.min(2 * newest.cycles))
        };
        Duration::from_nanos(until_ns)
    }
}
