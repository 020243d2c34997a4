//! The clock: reads, and who sees to it.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::{process, thread};

use pvclock::shared::Aligned;

use crate::chronyd_poll::Poll;
use crate::counter;
use crate::instant::Instant;
use crate::settings::Settings;
use crate::sole::{Held, Sole};
use crate::status::Status;
use crate::system::{System, monotonic_ns};
use crate::system_time::SystemTime;
use crate::timeline::maintenance::Maintenance;
use crate::timeline::published::{Place, Published, TimeOfDay, View};

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
    kept: Sole<Kept>,
    settings: Settings,
}

/// What the maintaining thread alone uses.
#[derive(Debug)]
struct Kept {
    maintenance: Maintenance,
    system: System,
}

/// How long who waits for a round of maintenance sleeps: a round takes some µs.
const HELD: Duration = Duration::from_micros(50);

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
        Self {
            published: Published::empty(),
            kept: Sole::new(Kept::new(settings, 0)),
            settings: *settings,
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
    /// when to come again. Of several threads one does it.
    pub fn maintain(&self) -> Duration {
        let (count, view) = self.published.view();
        if !view.is_half_over(counter::read_ordered()) {
            return until_due(&view);
        }
        self.step_if_nobody_does(count);
        until_due(&self.published.view().1)
    }

    /// Has the time's error bounded by what the chronyd at this address says,
    /// [`LOCAL_CHRONYD`](crate::LOCAL_CHRONYD) as a rule. It is asked once a
    /// second, while somebody reads; nobody waits for its answer. What it says
    /// goes before what it told the kernel: the bound is much tighter between
    /// its polls, and holds while it slews a large offset away.
    ///
    /// It is the one thing here that a program has to ask for, because it
    /// opens a socket. (A child that was forked while another thread was
    /// seeing to the clock has to ask for it anew.)
    ///
    /// # Errors
    /// No socket could be had.
    pub fn ask_chronyd(&self, address: SocketAddr) -> io::Result<()> {
        let poll = Poll::new(address, RandomState::new().hash_one(address) as u32)?;
        self.keep().system.chronyd = Some(poll);
        Ok(())
    }

    /// How the clock stands. Waits for a round of maintenance that is under
    /// way.
    pub fn status(&self) -> Status {
        Status::of(&self.keep().maintenance)
    }

    #[cold]
    #[inline(never)]
    fn now_slowly(&self) -> Instant {
        Instant::from_nanos(self.read_slowly().monotonic_ns)
    }

    #[cold]
    #[inline(never)]
    fn system_time_slowly(&self) -> SystemTime {
        SystemTime::of(&self.read_slowly())
    }

    /// A read that found something to see to.
    fn read_slowly(&self) -> TimeOfDay {
        loop {
            let (count, view) = self.published.view();
            match view.place(counter::read_ordered()) {
                Place::On(ns) => return view.on(ns),
                Place::Due(ns) => {
                    self.step_if_nobody_does(count);
                    return view.on(ns);
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
                return view.off(ns);
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

    /// The maintaining thread's part, waited for.
    fn keep(&self) -> Held<'_, Kept> {
        loop {
            if let Some(kept) = self.try_keep() {
                return kept;
            }
            // Not a yield: a real-time thread would yield to nobody below it.
            thread::sleep(HELD);
        }
    }

    /// The maintaining thread's part, unless another thread has it. In a child
    /// that was forked while one had it, all begins anew above what has been
    /// told; one that panicked has left what the next round makes good.
    fn try_keep(&self) -> Option<Held<'_, Kept>> {
        let anew = || {
            self.published.mend();
            Kept::new(&self.settings, self.published.view().1.floor_ns)
        };
        self.kept.try_hold(process::id(), anew)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    /// Nothing known, but that no time below this may be told.
    const fn new(settings: &Settings, floor_ns: u64) -> Self {
        Self {
            maintenance: Maintenance::new(
                settings.limits(),
                settings.unsynchronised_ns(),
                floor_ns,
            ),
            system: System::new(settings.vmclock),
        }
    }
}

/// Until half of the newest segment is over, or the next try. No less than a
/// millisecond where neither is ahead: another thread is at it.
fn until_due(view: &View) -> Duration {
    let View { newest, retry_ns, .. } = view;
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
