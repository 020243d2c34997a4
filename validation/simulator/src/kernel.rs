//! A guest's kernel: the shipped timekeeper on the machine's counter, and what a
//! daemon may ask of it.

use facts::Fact;
use facts::steering::Adjtimex;
use keeper::ClockError;
use pvclock::units::{LeapSecond, calendar};

use crate::kernel_clock::timex::{mode, status};
use crate::kernel_clock::{
    KernelClockSource, KernelClocks, LeapState, LinuxKernel as Version, Refused, Timekeeper, Timex,
};
use crate::machine::SimulatedMachine;
use crate::scenario::CounterModel;

/// The HPET of a machine without a TSC that it trusts.
const HPET_HZ: u64 = 14_318_180;

/// How long after a counter went back the kernel has another, ns: the watchdog
/// looks twice a second, and needs another look.
pub(crate) const WATCHDOG_NS: i64 = 1_000_000_000;

/// A guest's kernel.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedKernel {
    counter: CounterModel,
    time: Timekeeper,
    /// The latest count, from which the kernel takes none that is before it.
    last: u64,
    /// The counter went back at this true time.
    went_back_ns: Option<i64>,
    /// It counts by the HPET since this true time.
    hpet_since_ns: Option<i64>,
    was_set: bool,
}

impl SimulatedKernel {
    /// A kernel that boots at this time of day, ns.
    pub(crate) fn boot(
        counter: CounterModel,
        machine: &mut SimulatedMachine,
        at_ns: i64,
        date_ns: i64,
    ) -> Self {
        let version = Version::new(crate::kernel_clock::Version(6, 1, 176), 250);
        let source = match counter {
            CounterModel::KvmClock => KernelClockSource::kvm_clock(),
            CounterModel::Tsc => KernelClockSource::tsc(machine.advertised_khz()),
        };
        let time = Timekeeper::boot(version, source, 0, date_ns.max(0).cast_unsigned());
        let mut new = Self {
            counter,
            time,
            last: 0,
            went_back_ns: None,
            hpet_since_ns: None,
            was_set: false,
        };
        let began = new.count(machine, at_ns);
        new.time = Timekeeper::boot(version, source, began, date_ns.max(0).cast_unsigned());
        new.last = began;
        new
    }

    /// The counter as it is.
    fn count(&mut self, machine: &mut SimulatedMachine, at_ns: i64) -> u64 {
        if let Some(since_ns) = self.hpet_since_ns {
            // A crystal of its own, and right: what becomes of TSCs does not reach it.
            // Each tick reads its 32 bits, so none of its rounds is lost.
            let ns = (at_ns - since_ns).max(0).unsigned_abs();
            return (u128::from(ns) * u128::from(HPET_HZ) / 1_000_000_000) as u64;
        }
        let tsc = machine.tsc(at_ns);
        match self.counter {
            CounterModel::Tsc => tsc,
            CounterModel::KvmClock => machine.page_ns(tsc),
        }
    }

    /// Reads the counter at true time `at_ns`.
    pub(crate) fn advance(&mut self, machine: &mut SimulatedMachine, at_ns: i64) {
        let mut count = self.count(machine, at_ns);
        // A TSC that starts anew under an offset goes round.
        if count.wrapping_sub(self.last).cast_signed() < 0 {
            // It takes none that is smaller (clocksource_delta), and stands.
            let since_ns = *self.went_back_ns.get_or_insert(at_ns);
            if self.counter == CounterModel::Tsc && at_ns - since_ns >= WATCHDOG_NS {
                self.time.advance_to(self.last);
                self.hpet_since_ns = Some(at_ns);
                self.time.change_source(self.last, KernelClockSource::hpet(HPET_HZ), 0);
                self.last = 0;
                self.went_back_ns = None;
            }
            count = self.last;
        } else {
            self.went_back_ns = None;
        }
        self.last = count;
        self.time.advance_to(count);
    }

    /// What programs read at the last count.
    pub(crate) fn clocks(&self) -> KernelClocks {
        self.time.clocks(self.last)
    }

    /// CLOCK_REALTIME and CLOCK_MONOTONIC, ns.
    pub(crate) fn shown_ns(&self) -> [i64; 2] {
        let clocks = self.clocks();
        [clocks.realtime, clocks.monotonic].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX))
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
            not_given: Vec::new(),
        })
    }
}

// A guest's clock as the keeper corrects it: by the calls that `linux::system_clock` makes.

const DAY_NS: i64 = 86_400_000_000_000;

impl SimulatedKernel {
    fn leap_due(&self) -> Option<LeapSecond> {
        let ntp = self.time.ntp();
        let is_over = matches!(ntp.leap_state(), LeapState::Passing | LeapState::Passed);
        match ntp.status() & (status::INS | status::DEL) {
            0 => None,
            _ if is_over => None,
            bits if bits & status::INS != 0 => Some(LeapSecond::Inserted),
            _ => Some(LeapSecond::Deleted),
        }
    }
}

impl SimulatedKernel {
    pub(crate) fn step(&mut self, by_ns: i64) -> Result<(), Refused> {
        let modes = mode::SETOFFSET | mode::NANO;
        let (seconds, fraction) =
            (by_ns.div_euclid(1_000_000_000), by_ns.rem_euclid(1_000_000_000));
        let day = |kernel: &Self| kernel.shown_ns()[0].div_euclid(DAY_NS);
        let may_end_with_one = |day: &i64| calendar::date((*day).into()).is_leap_day();
        let (due, from) = (self.leap_due(), Some(day(self)).filter(may_end_with_one));
        self.adjust(Timex { modes, seconds, fraction, ..Timex::default() })?;
        self.was_set = true;
        if due.is_some() { self.set_leap(due.filter(|_| from == Some(day(self)))) } else { Ok(()) }
    }

    pub(crate) fn slew(&mut self, by_ns: i64) -> Result<(), Refused> {
        let offset = by_ns / 1000;
        self.adjust(Timex { modes: mode::OFFSET_SINGLESHOT, offset, ..Timex::default() })?;
        Ok(())
    }

    pub(crate) fn set_error(&mut self, error: ClockError) -> Result<(), Refused> {
        let us = |ns: u64| i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX);
        let (max_error, estimated_error) = (us(error.max_ns), us(error.estimated_ns));
        let modes = mode::MAXERROR | mode::ESTERROR | mode::STATUS;
        let kept = self.time.ntp().status() & !(status::UNSYNC | status::READ_ONLY);
        let timex = Timex { modes, max_error, estimated_error, status: kept, ..Timex::default() };
        self.adjust(timex).map(|_| ())
    }

    pub(crate) fn set_figures(
        &mut self,
        max_ns: Option<u64>,
        estimated_ns: u64,
    ) -> Result<(), Refused> {
        let us = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
        let modes = mode::ESTERROR | if max_ns.is_some() { mode::MAXERROR } else { 0 };
        let (max_error, estimated_error) = (us(max_ns.unwrap_or(0)), us(estimated_ns));
        self.adjust(Timex { modes, max_error, estimated_error, ..Timex::default() })?;
        Ok(())
    }

    pub(crate) fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), Refused> {
        let bits = match leap {
            Some(LeapSecond::Inserted) => status::INS,
            Some(LeapSecond::Deleted) => status::DEL,
            None => 0,
        };
        let kept = self.time.ntp().status() & !(status::INS | status::DEL);
        // A PLL that is left forgets a second that is due no more.
        let unit = if kept & status::NANO == 0 { 0 } else { mode::NANO };
        for status in [kept | status::PLL, kept & !status::PLL, kept | bits] {
            let modes = mode::STATUS | unit;
            self.adjust(Timex { modes, status, ..Timex::default() })?;
        }
        Ok(())
    }

    pub(crate) fn set_frequency(&mut self, ppb: f64) -> Result<(), Refused> {
        let frequency = (ppb * 65.536).round() as i64;
        self.adjust(Timex { modes: mode::FREQUENCY, frequency, ..Timex::default() })?;
        Ok(())
    }
}
