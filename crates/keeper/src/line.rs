//! The kernel's line held to the host's: what frequency to set, by the two lines alone.
//!
//! Both are exact at any count of the CPU's counter ([`pvclock::vvar`]), so a look has no noise
//! but the kernel's own: it meets a rate by two neighbouring multipliers in turn, and between two
//! updates it is off by up to their difference, 0.12 to 0.24 ppm of the time between these.
//! Each look sets the frequency that meets the page by the next one:
//!
//! ```text
//! 1 + frequency = (1 + the page's rate + learnt) · (1 − ahead / time to the next look)
//! ```
//!
//! Rates are relative to the kernel's at frequency 0, which its first multiplier shows to 0.2 ppm.
//! The rest of it, and what the kernel rounds, is *learnt*: by how much more than expected the
//! lines parted since the last look. Example: ahead by 8 ns, 4 s to go: −2 ppb, 131 of the
//! kernel's units of 2^−16 ppm; a unit is 0.06 ns in 4 s. If this program dies, the clock drifts
//! by those 2 ppb.

use pvclock::vmclock::VmClockInfo;
use pvclock::vvar::{KernelLine, LineError};

/// The kernel's units of frequency, 2^-16 ppm.
const UNIT: f64 = 1e-6 / 65_536.0;

/// The largest frequency, in units (MAXFREQ, include/linux/timex.h).
const LARGEST_UNITS: f64 = 500.0 * 65_536.0;

/// Time to the next look, ns: while the rate is being learnt or the clock is off; where it is not
/// near; to see whether it stays where it suddenly was; and in calm.
const SOON_NS: u64 = 500_000_000;
const FAR_NS: u64 = 2_000_000_000;
const SURPRISED_NS: u64 = 1_000_000_000;
const CALM_NS: u64 = 4_000_000_000;

/// From here on the clock is off, ns, until it is ahead by [`NOISE_NS`] at most; and up to here it
/// is near.
const OFF_NS: f64 = 50.0;
const NEAR_NS: f64 = 5.0;

/// More than this is stepped, ns.
const STEPPED_NS: f64 = 100_000.0;

/// What is less is made up for no faster than this. A frequency that changes in the middle of a tick
/// leaves the kernel with the change times that part of the tick to catch up with, which it does
/// at 0.1 ppm: of 10 ppm and 4 ms it is 40 ns, of a slew by 500 ppm 2 us.
const LARGEST_SLEW: f64 = 10e-6;

/// A clock that was off is held once it is ahead by no more than this, ns. From then on a part of what
/// is ahead is taken back by the next look: the rest is where between two updates of the kernel the
/// look was, which makes up for that itself.
const NOISE_NS: f64 = 10.0;
const PART: f64 = 0.75;

/// An interval shows the rate the better the longer it is: by the square of its length, in s².
/// What was learnt before weighs no more than 16 such intervals, of 4 s at least, and at least this much before a
/// look is made in calm. The kernel's first multiplier counts as one of 1 s.
const MOST_KNOWN: f64 = 16.0;
const CALM_S2: f64 = 16.0;
const LEAST_KNOWN: f64 = 4.0;
const FIRST_KNOWN: f64 = 1.0;

/// Lines that part by more were moved by somebody: nothing is learnt of it.
const LEARNABLE: f64 = 0.3e-6;

/// Another multiplier of the same clock source is within this, unless somebody slews.
const SAME_SOURCE: f64 = 1e-6;

/// A changed rate of the page may have been in force for any part of the interval.
const SAME_RATE: f64 = 10e-9;

/// What a look has the kernel do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineSteering {
    /// By how much CLOCK_REALTIME is ahead of the page, ns.
    pub ahead_ns: f64,
    /// What to step the clock by first, ns, where that is more than is slewed.
    pub step_ns: Option<i64>,
    /// The clock is to be stepped by 0 after that: the kernel then forgets what it has to catch up with
    /// and what is left of a slew (`TK_CLEAR_NTP`, kernel/time/timekeeping.c), which would move it
    /// for a minute.
    pub catches_up: bool,
    /// The frequency to set, 2^-16 ppm.
    pub frequency: i64,
    /// Time until the next look, ns; earlier where the page changes.
    pub next_ns: u64,
}

/// The last look.
#[derive(Debug, Clone, Copy)]
struct LastLook {
    page: VmClockInfo,
    counter: u64,
    ahead_ns: f64,
    /// The frequency that was set.
    units: i64,
    /// By how much the lines part with that.
    parting: f64,
    /// They do by more than is learnt of, or did before: the kernel has that to catch up with.
    is_slewed: bool,
}

/// The loop.
#[derive(Debug, Clone)]
pub struct LineLoop {
    /// ns a count at frequency 0, by the first look.
    nominal_ns: Option<f64>,
    /// What the kernel adds to that.
    learnt: f64,
    /// How well, s².
    known: f64,
    /// It was off, and is not held yet.
    is_off: bool,
    was_slewed: bool,
    was_surprised: bool,
    /// The kernel has nothing to catch up with: since somebody moved a line it was stepped.
    is_caught_up: bool,
    last: Option<LastLook>,
}

impl Default for LineLoop {
    fn default() -> Self {
        Self {
            nominal_ns: None,
            learnt: 0.0,
            known: FIRST_KNOWN,
            is_off: true,
            was_slewed: false,
            was_surprised: false,
            is_caught_up: false,
            last: None,
        }
    }
}

impl LineLoop {
    /// The lines at a count, and the kernel's frequency of now, 2^-16 ppm.
    ///
    /// # Errors
    /// The page gives no time for this clock; the frequency is to stay.
    pub fn look(
        &mut self,
        (line, page): (&KernelLine, VmClockInfo),
        counter: u64,
        frequency: i64,
    ) -> Result<LineSteering, LineError> {
        let shown_ns = line.ahead_ns(page, counter).inspect_err(|_| self.last = None)?;
        let (nominal_ns, is_first) =
            self.follow_source(line.ns_per_count() / (1.0 + frequency as f64 * UNIT));
        let page_rate = page.ns_per_count() / nominal_ns;
        if (page_rate - 1.0).abs() > LARGEST_UNITS * UNIT {
            self.last = None;
            return Err(LineError::Rate(((page_rate - 1.0) * 1e9) as i64));
        }
        if let Some(last) = self.learn(&page, counter, shown_ns, frequency) {
            let (frequency, next_ns) = (last.units, SURPRISED_NS);
            let (ahead_ns, step_ns, catches_up) = (shown_ns, None, false);
            return Ok(LineSteering { ahead_ns, step_ns, catches_up, frequency, next_ns });
        }
        self.is_off = shown_ns.abs() > if self.is_off { NOISE_NS } else { OFF_NS };
        let next_ns = if self.is_off || self.known < LEAST_KNOWN {
            SOON_NS
        } else if shown_ns.abs() > NEAR_NS {
            FAR_NS
        } else {
            CALM_NS
        };
        let is_stepped = shown_ns.abs() > STEPPED_NS;
        // Steps are of whole microseconds (`linux::adjtimex::set_offset`).
        let step_ns = is_stepped.then(|| (-shown_ns / 1000.0).round() as i64 * 1000);
        let ahead_ns = shown_ns + step_ns.unwrap_or_default() as f64;
        let part = if self.is_off { 1.0 } else { PART };
        let slew = part * ahead_ns / next_ns as f64;
        let slew = slew.clamp(-LARGEST_SLEW, LARGEST_SLEW);
        let wanted = (page_rate + self.learnt) * (1.0 - slew) - 1.0;
        let units = (wanted / UNIT).round().clamp(-LARGEST_UNITS, LARGEST_UNITS);
        let parting = (1.0 + units * UNIT) / (page_rate + self.learnt) - 1.0;
        let catches_up = self.is_off && !self.is_caught_up && !is_stepped;
        // A slew by somebody else, which the step by 0 ends, may be in the nominal rate.
        let units = if is_first && catches_up { frequency } else { units as i64 };
        self.is_caught_up = self.is_caught_up || catches_up || is_stepped;
        let is_slewed = parting.abs() > LEARNABLE;
        let is_slewed = std::mem::replace(&mut self.was_slewed, is_slewed) || is_slewed;
        let looked = LastLook { page, counter, ahead_ns, units, parting, is_slewed };
        self.last = Some(looked).filter(|_| !is_stepped && !catches_up);
        Ok(LineSteering { ahead_ns: shown_ns, step_ns, catches_up, frequency: units, next_ns })
    }

    /// The kernel's rate at frequency 0, by the first look at this clock source, and whether that
    /// is this one.
    fn follow_source(&mut self, now_ns: f64) -> (f64, bool) {
        let nominal_ns =
            self.nominal_ns.filter(|was_ns| (now_ns / was_ns - 1.0).abs() <= SAME_SOURCE);
        if nominal_ns.is_none() {
            *self = Self { nominal_ns: Some(now_ns), ..Self::default() };
        }
        (nominal_ns.unwrap_or(now_ns), nominal_ns.is_none())
    }

    /// Whether the page goes on as at the last look: another rate or a disruption is followed at once.
    pub fn has_seen(&self, page: &VmClockInfo) -> bool {
        self.last.is_some_and(|last| is_same(&last.page, page))
    }

    /// The clock was slewed or stepped by somebody else: the kernel may have to catch up again.
    pub fn note_move(&mut self) {
        (self.last, self.is_caught_up) = (None, false);
    }

    /// Learns by how much more the lines parted than was expected, unless somebody else moved
    /// one of them. Returns the last look where that is to go on: the clock is suddenly off. Without
    /// ticks it is by a quantum of the time, which the kernel makes up for alone.
    fn learn(
        &mut self,
        page: &VmClockInfo,
        counter: u64,
        ahead_ns: f64,
        frequency: i64,
    ) -> Option<LastLook> {
        let was_surprised = std::mem::take(&mut self.was_surprised);
        // The kernel rounds what it reports by a unit.
        let last = self.last.take().filter(|last| last.units.abs_diff(frequency) <= 1)?;
        // A changed page moved nothing that the kernel has to catch up with.
        if !is_same(&last.page, page) {
            return None;
        }
        let since_ns = counter.wrapping_sub(last.counter) as f64 * page.ns_per_count();
        let unexpected_ns = ahead_ns - last.ahead_ns - last.parting * since_ns;
        self.was_surprised = !self.is_off && !was_surprised && unexpected_ns.abs() > NEAR_NS;
        if self.was_surprised {
            self.last = Some(last);
            return self.last;
        }
        let more = unexpected_ns / since_ns;
        if more.abs() <= LEARNABLE && !last.is_slewed {
            let shown = (since_ns * 1e-9).powi(2);
            let before = self.known.min(MOST_KNOWN * shown.max(CALM_S2));
            let learnt = self.learnt - more * shown / (before + shown);
            self.known += shown;
            self.learnt = learnt.clamp(-LEARNABLE, LEARNABLE);
        }
        None
    }
}

fn is_same(old: &VmClockInfo, new: &VmClockInfo) -> bool {
    (old.disruption_marker, old.vm_generation) == (new.disruption_marker, new.vm_generation)
        && (new.ns_per_count() / old.ns_per_count() - 1.0).abs() <= SAME_RATE
}
