//! A guest's kernel: the shipped timekeeper on the machine's counter, and what a
//! daemon may ask of it.

use facts::Fact;
use facts::steering::Adjtimex;
use host::ticks::{Backlog, TickPolicy};
use keeper::{ClockError, SystemClock};
use pvclock::Nanos;
use timekeeper::timex::{mode, status};
use timekeeper::{ClockSource, Clocks, Kernel as Version, Refused, Timekeeper, Timex};

use crate::fault::Missed;
use crate::machine::Machine;
use crate::scenario::{Counter, Guest};

/// The HPET of a machine without a TSC that it trusts.
const HPET_HZ: u64 = 14_318_180;

/// How long after a counter went back the kernel has another, ns: the watchdog
/// looks twice a second, and needs another look.
pub(crate) const WATCHDOG_NS: i64 = 1_000_000_000;

/// A guest's kernel.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    version: Version,
    counter: Counter,
    time: Timekeeper,
    /// The largest count so far: the kernel takes no smaller one.
    last: u64,
    /// The counter went back at this true time.
    went_back_ns: Option<i64>,
    /// It counts by the HPET since this true time, of this count of the TSC.
    hpet_since: Option<(i64, u64)>,
    /// Time that the timer's interrupts have lost, ns.
    lost_ns: u64,
    was_set: bool,
}

impl Kernel {
    /// A kernel that boots at this time of day, ns.
    pub(crate) fn boot(guest: Guest, machine: &mut Machine, at_ns: i64, date_ns: i64) -> Self {
        let version = Version::new(timekeeper::Version(6, 1, 176), guest.tick_hz.0);
        let counter = guest.counter;
        let source = match counter {
            Counter::KvmClock => ClockSource::kvm_clock(false),
            Counter::Tsc => ClockSource::tsc(machine.advertised_khz(), true, true),
            Counter::Ticks => ClockSource::jiffies(version),
        };
        let lost_ns = 0;
        let time = Timekeeper::boot(version, source, 0, date_ns.max(0).cast_unsigned());
        let (went_back_ns, hpet_since, was_set) = (None, None, false);
        let mut new =
            Self { version, counter, time, last: 0, went_back_ns, hpet_since, lost_ns, was_set };
        let began = new.count(machine, at_ns);
        new.time = Timekeeper::boot(version, source, began, date_ns.max(0).cast_unsigned());
        new.last = began;
        new
    }

    /// The counter as it is.
    fn count(&mut self, machine: &mut Machine, at_ns: i64) -> u64 {
        if let Some((since_ns, tsc)) = self.hpet_since {
            // It belongs to the host, and has its oscillator's error.
            let cycles = machine.tsc(at_ns).wrapping_sub(tsc);
            let _ = since_ns;
            return (u128::from(cycles) * u128::from(HPET_HZ)
                / u128::from(machine.advertised_khz() * 1000)) as u64;
        }
        let tsc = machine.tsc(at_ns);
        match self.counter {
            Counter::Tsc => tsc,
            Counter::KvmClock => machine.page_ns(tsc),
            Counter::Ticks => {
                machine.page_ns(tsc).saturating_sub(self.lost_ns) / self.version.tick_ns()
            }
        }
    }

    /// Reads the counter at true time `at_ns`, and all ticks up to it.
    pub(crate) fn advance(&mut self, machine: &mut Machine, at_ns: i64) -> u64 {
        let mut count = self.count(machine, at_ns);
        if count < self.last {
            // It takes none that is smaller (clocksource_delta), and stands.
            let since_ns = *self.went_back_ns.get_or_insert(at_ns);
            if self.counter == Counter::Tsc
                && self.hpet_since.is_none()
                && at_ns - since_ns >= WATCHDOG_NS
            {
                self.hpet_since = Some((at_ns, machine.tsc(at_ns)));
                self.time.change_source(self.last, ClockSource::hpet(HPET_HZ), 0);
                self.last = 0;
                self.went_back_ns = None;
            }
            count = self.last;
        }
        self.last = count;
        self.time.advance_to(count);
        count
    }

    /// What programs read at the last count.
    pub(crate) fn clocks(&self) -> Clocks {
        self.time.clocks(self.last)
    }

    /// The timer was owed ticks for so long; what becomes of them.
    pub(crate) fn ticks_missed(&mut self, for_ns: i64, missed: Missed) {
        let period = Nanos(self.version.tick_ns());
        let policy = match missed {
            Missed::Discard => TickPolicy::Discard,
            Missed::Merge => TickPolicy::Merge,
            Missed::CatchUp => TickPolicy::CatchUp { rate: 2, most: u64::MAX - 1 },
        };
        if self.counter == Counter::Ticks
            && let Some(mut owed) = Backlog::new(period, policy, Nanos(0))
        {
            owed.take(Nanos(for_ns.max(0).cast_unsigned()));
            self.lost_ns += owed.dropped() * period.0;
        }
    }

    /// The clock source's name.
    pub(crate) fn source(&self) -> &'static str {
        self.time.source().name
    }

    /// Whether the time of day was set since this was asked last.
    pub(crate) fn take_was_set(&mut self) -> bool {
        std::mem::take(&mut self.was_set)
    }

    /// `adjtimex`.
    pub(crate) fn adjust(&mut self, mut timex: Timex) -> Result<Timex, Refused> {
        self.time.adjtimex(self.last, &mut timex)?;
        Ok(timex)
    }

    /// What a probe reads of it.
    pub(crate) fn steering(&mut self) -> Fact<Adjtimex> {
        let mut read = Timex::default();
        let state = self.time.adjtimex(self.last, &mut read).unwrap_or(5);
        let unit_ns = if read.status & status::NANO == 0 { 1000 } else { 1 };
        Fact::Known(Adjtimex {
            offset_ns: read.offset * unit_ns,
            miscast_offset_us: None,
            frequency_ppm: read.frequency as f64 / 65_536.0,
            max_error_us: read.max_error,
            estimated_error_us: read.estimated_error,
            status: read.status.cast_unsigned(),
            tick_us: read.tick,
            tai_s: read.tai,
            state,
        })
    }

    /// ADJ_FREQUENCY and ADJ_TICK together, ppb: what chronyd slews by.
    pub(crate) fn set_rate(&mut self, ppb: f64) -> Result<(), Refused> {
        // A tick of 10 000 us has steps of 100 ppm; the rest is the frequency.
        let ticks = (ppb / 100_000.0).round().clamp(-999.0, 999.0);
        let rest = ppb - ticks * 100_000.0;
        let frequency = (rest * 65.536).round() as i64;
        let tick = 10_000 + ticks as i64;
        let modes = mode::FREQUENCY | mode::TICK;
        self.adjust(Timex { modes, frequency, tick, ..Timex::default() }).map(|_| ())
    }
}

impl SystemClock for Kernel {
    type Error = Refused;

    fn now(&self) -> Result<Nanos, Refused> {
        let now = self.clocks().realtime;
        u64::try_from(now).map(Nanos).map_err(|_| Refused::OutOfRange(now))
    }

    fn step(&mut self, by_ns: i64) -> Result<(), Refused> {
        let modes = mode::SETOFFSET | mode::NANO;
        let (seconds, fraction) =
            (by_ns.div_euclid(1_000_000_000), by_ns.rem_euclid(1_000_000_000));
        self.adjust(Timex { modes, seconds, fraction, ..Timex::default() })?;
        self.was_set = true;
        Ok(())
    }

    fn slew(&mut self, by_ns: i64) -> Result<(), Refused> {
        let offset = by_ns / 1000;
        self.adjust(Timex { modes: mode::OFFSET_SINGLESHOT, offset, ..Timex::default() })?;
        Ok(())
    }

    fn set_error(&mut self, error: ClockError) -> Result<(), Refused> {
        let us = |ns: u64| i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX);
        let (max_error, estimated_error) = (us(error.max_ns), us(error.estimated_ns));
        let modes = mode::MAXERROR | mode::ESTERROR | mode::STATUS;
        let kept = self.adjust(Timex::default())?.status & !(status::UNSYNC | status::READ_ONLY);
        let timex = Timex { modes, max_error, estimated_error, status: kept, ..Timex::default() };
        self.adjust(timex).map(|_| ())
    }

    fn set_estimated_error(&mut self, estimated_ns: u64) -> Result<(), Refused> {
        let estimated_error = i64::try_from(estimated_ns / 1000).unwrap_or(i64::MAX);
        self.adjust(Timex { modes: mode::ESTERROR, estimated_error, ..Timex::default() })?;
        Ok(())
    }

    fn set_frequency(&mut self, ppb: f64) -> Result<(), Refused> {
        let frequency = (ppb * 65.536).round() as i64;
        self.adjust(Timex { modes: mode::FREQUENCY, frequency, ..Timex::default() })?;
        Ok(())
    }
}
