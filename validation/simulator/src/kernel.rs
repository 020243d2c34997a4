//! A guest's kernel: the shipped timekeeper on the machine's counter, and what a
//! daemon may ask of it.

mod corrected;

use crate::kernel_clock::timex::{mode, status};
use crate::kernel_clock::{
    KernelClockSource, KernelClocks, LinuxKernel as Version, Refused, Timekeeper, Timex,
};
use facts::Fact;
use facts::steering::Adjtimex;
use host::ticks::{Backlog, TickPolicy};
use pvclock::Nanos;

use crate::fault::Missed;
use crate::machine::SimulatedMachine;
use crate::scenario::{CounterModel, ScenarioGuest};

/// The HPET of a machine without a TSC that it trusts.
const HPET_HZ: u64 = 14_318_180;

/// How long after a counter went back the kernel has another, ns: the watchdog
/// looks twice a second, and needs another look.
pub(crate) const WATCHDOG_NS: i64 = 1_000_000_000;

/// A guest's kernel.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedKernel {
    version: Version,
    counter: CounterModel,
    time: Timekeeper,
    /// The latest count, from which the kernel takes none that is before it.
    last: u64,
    /// The counter went back at this true time.
    went_back_ns: Option<i64>,
    /// It counts by the HPET since this true time.
    hpet_since_ns: Option<i64>,
    /// Time that the timer's interrupts have lost, ns.
    lost_ns: u64,
    was_set: bool,
    /// The clock as a line, while nothing bends it.
    line: Option<KernelLine>,
    /// From this CLOCK_MONOTONIC on nothing does, ns; nothing while it is not
    /// known.
    bent_until_ns: Option<i128>,
}

/// A steady clock: its multiplier wavers around this line, by less than 1 ns.
#[derive(Debug, Clone, Copy)]
struct KernelLine {
    count: u64,
    realtime_ns: i64,
    monotonic_ns: i64,
    /// In a count, times 2⁶⁴.
    ns: u128,
}

impl SimulatedKernel {
    /// A kernel that boots at this time of day, ns.
    pub(crate) fn boot(
        guest: ScenarioGuest,
        machine: &mut SimulatedMachine,
        at_ns: i64,
        date_ns: i64,
    ) -> Self {
        let version = Version::new(crate::kernel_clock::Version(6, 1, 176), guest.tick_hz.0);
        let counter = guest.counter;
        let source = match counter {
            CounterModel::KvmClock => KernelClockSource::kvm_clock(false),
            CounterModel::Tsc => KernelClockSource::tsc(machine.advertised_khz()),
            CounterModel::Ticks => KernelClockSource::jiffies(version),
        };
        let lost_ns = 0;
        let time = Timekeeper::boot(version, source, 0, date_ns.max(0).cast_unsigned());
        let mut new = Self {
            version,
            counter,
            time,
            last: 0,
            went_back_ns: None,
            hpet_since_ns: None,
            lost_ns,
            was_set: false,
            line: None,
            bent_until_ns: Some(0),
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
            CounterModel::Ticks => {
                machine.page_ns(tsc).saturating_sub(self.lost_ns) / self.version.tick_ns()
            }
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
                self.settle();
                self.line = None;
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
        if self.line.is_none() {
            self.settle();
            let clocks = self.time.clocks(count);
            // The HPET's coarse counts catch up with a frequency for longer than a line lasts.
            let is_steady = self.hpet_since_ns.is_none()
                && self.bent_until_ns.is_some_and(|until_ns| clocks.monotonic > until_ns);
            let ns = self.ns_a_count();
            let [realtime_ns, monotonic_ns] =
                [clocks.realtime, clocks.monotonic].map(|ns| i64::try_from(ns).unwrap_or(0));
            self.line = is_steady.then_some(KernelLine { count, realtime_ns, monotonic_ns, ns });
        }
    }

    /// What a steady clock gains in a count, ns times 2⁶⁴. A tick of 4 ms is not a
    /// whole number of counts: what it is short of is not made up for by steering
    /// (`xtime_remainder`, kernel/time/timekeeping.c).
    fn ns_a_count(&self) -> u128 {
        let (source, counts) = (self.time.source(), self.time.tick_counts());
        let tick = i128::from(self.version.tick_ns()) << source.shift;
        let short = tick - i128::from(counts) * i128::from(source.mult);
        let length = i128::from(self.time.ntp().tick_length()) - (short << (32 - source.shift));
        (length.max(0).cast_unsigned() << 32) / u128::from(counts)
    }

    /// Takes the ticks up to the last count.
    fn settle(&mut self) {
        self.time.advance_to(self.last);
    }

    /// What programs read at the last count.
    pub(crate) fn clocks(&mut self) -> KernelClocks {
        let [realtime_ns, _] = self.shown_ns();
        self.settle();
        let clocks = self.time.clocks(self.last);
        debug_assert!((clocks.realtime - i128::from(realtime_ns)).abs() <= 2, "{self:?}");
        clocks
    }

    /// CLOCK_REALTIME and CLOCK_MONOTONIC, ns, to 2 ns: for whoever only looks,
    /// ticks need not be taken.
    pub(crate) fn shown_ns(&self) -> [i64; 2] {
        if let Some(line) = &self.line {
            let counts = self.last.wrapping_sub(line.count);
            let ns = ((u128::from(counts) * line.ns) >> 64) as i64;
            return [line.realtime_ns + ns, line.monotonic_ns + ns];
        }
        let clocks = self.time.clocks(self.last);
        [clocks.realtime, clocks.monotonic].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// The timer was owed ticks for so long, so often; what becomes of them.
    pub(crate) fn ticks_missed(&mut self, for_ns: i64, times: u64, missed: Missed) {
        let period = Nanos(self.version.tick_ns());
        let policy = match missed {
            Missed::Discard => TickPolicy::Discard,
            Missed::Merge => TickPolicy::Merge,
            Missed::CatchUp => TickPolicy::CatchUp { rate: 2, most: u64::MAX - 1 },
        };
        if self.counter == CounterModel::Ticks
            && let Some(mut owed) = Backlog::new(period, policy, Nanos(0))
        {
            owed.take(Nanos(for_ns.max(0).cast_unsigned()));
            self.lost_ns += owed.dropped() * period.0 * times;
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
        const BENDS: u32 = mode::OFFSET | mode::FREQUENCY | mode::TICK | mode::SETOFFSET;
        self.settle();
        let announces = timex.modes & mode::STATUS != 0 && timex.status & status::INS != 0;
        if timex.modes & BENDS != 0 || announces {
            self.line = None;
            let monotonic_ns = self.time.clocks(self.last).monotonic;
            let until = |ns: i128| self.bent_until_ns.map(|_| monotonic_ns + ns);
            self.bent_until_ns = match timex.modes & mode::OFFSET_SINGLESHOT {
                mode::OFFSET_SINGLESHOT => {
                    until(i128::from(timex.offset.unsigned_abs()) * 2_000_000 + 2_000_000_000)
                }
                // The PLL decays for hours, and a leap second has its states; what a
                // tick of another length was short of is made up for in an hour.
                _ if announces || timex.modes & (mode::OFFSET | mode::TICK) != 0 => None,
                // A slew that was begun goes on.
                _ => until(10_000_000_000).max(self.bent_until_ns),
            };
        }
        self.time.adjtimex(self.last, &mut timex)?;
        Ok(timex)
    }

    /// What a probe reads of it.
    pub(crate) fn steering(&mut self) -> Fact<Adjtimex> {
        self.settle();
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
