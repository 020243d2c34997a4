//! The interval in which the watchdog found the TSC unstable, in figures.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::Case;
use crate::case::trust::kernel_tsc_hz;

/// The ACPI PM timer's frequency, the same on all machines.
pub(crate) const ACPI_PM_HZ: f64 = 3_579_545.0;

/// One interval by the two clocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    /// TSC's length of the interval minus the watchdog's, ns.
    pub(crate) skew_ns: f64,
    /// The interval by the watchdog, ns, where the log gives it.
    pub(crate) watchdog_ns: Option<f64>,
    /// The watchdog's name.
    pub(crate) watchdog: Option<String>,
    /// The period after which the watchdog's counter wraps, ns, where known.
    pub(crate) wrap_ns: Option<f64>,
    /// By how many cycles the TSC went backward, where it did.
    pub(crate) backward_cycles: Option<u64>,
}

/// Lines that can follow a verdict with its figures.
const REACH: usize = 6;

impl Interval {
    /// The figures in the lines after the verdict in line `at`, or in it.
    pub(crate) fn after(case: &Case<'_>, log: &[LogLine], at: usize) -> Option<Self> {
        let lines = &log[at + 1..log.len().min(at + 1 + REACH)];
        let (mut watchdog, mut source, mut skew) = (None, None, None);
        for line in lines {
            match &line.event {
                LogEvent::WatchdogInterval { watchdog: true, .. } => watchdog = Some(line),
                LogEvent::WatchdogInterval { watchdog: false, .. } => source = Some(line),
                LogEvent::Skew { skew_ns, interval_ns, .. } => {
                    skew = Some((*skew_ns as f64, *interval_ns as f64));
                }
                LogEvent::MarkedUnstable { .. } => break,
                _ => {}
            }
        }
        let length_ns = |line: &LogLine| length_ns(case, line);
        let watchdog_ns = watchdog.and_then(length_ns).or(skew.map(|(_, interval)| interval));
        let both = watchdog_ns.zip(source.and_then(length_ns));
        let skew_ns = both
            .map(|(watchdog, source)| source - watchdog)
            .or(skew.map(|(skew, _)| skew))
            .or_else(|| old_delta_ns(&log[at]))?;
        let counter = watchdog.and_then(|line| Counter::parse(&line.text));
        Some(Self {
            skew_ns,
            watchdog_ns,
            watchdog: watchdog.map(|line| name(&line.event)),
            wrap_ns: counter.zip(watchdog_ns).and_then(|(counter, ns)| counter.wrap_ns(ns)),
            backward_cycles: source
                .and_then(|line| Counter::parse(&line.text))
                .and_then(|counter| counter.backward()),
        })
    }

    /// Skew as a rate, ppm of the watchdog's interval.
    pub(crate) fn ppm(&self) -> Option<f64> {
        self.watchdog_ns.filter(|ns| *ns > 0.0).map(|ns| self.skew_ns / ns * 1e6)
    }

    /// The sum, so that it can be redone.
    pub(crate) fn sum(&self) -> String {
        let skew = figures::signed(self.skew_ns, figures::time);
        let watchdog = self.watchdog.as_deref().unwrap_or("watchdog");
        let Some(ns) = self.watchdog_ns else {
            return format!("TSC minus {watchdog}: {skew}; the log does not give the interval");
        };
        // More is not a rate.
        const RATE_PPM: f64 = 100_000.0;
        let rate = match self.ppm().filter(|ppm| ppm.abs() < RATE_PPM) {
            Some(ppm) => format!(" ({})", figures::ppm(ppm)),
            None => String::new(),
        };
        format!("TSC minus {watchdog}: {skew} in an interval of {}{rate}", figures::time(ns))
    }
}

/// A line's interval: as logged, or before Linux 5.13, which logs only the
/// counter, by that counter's frequency.
fn length_ns(case: &Case<'_>, line: &LogLine) -> Option<f64> {
    let LogEvent::WatchdogInterval { clocksource, interval_ns, .. } = &line.event else {
        return None;
    };
    interval_ns.map(|ns| ns as f64).or_else(|| {
        let ticks = Counter::parse(&line.text)?.ticks();
        Some(ticks as f64 / frequency_hz(case, clocksource)? * 1e9)
    })
}

/// A clock source's frequency, where it is fixed or logged.
fn frequency_hz(case: &Case<'_>, clocksource: &str) -> Option<f64> {
    match clocksource {
        "acpi_pm" => Some(ACPI_PM_HZ),
        // "hpet0: 3 comparators, 64-bit 14.318180 MHz counter"
        "hpet" => case.log().ok()?.iter().find_map(|line| {
            let (head, _) = line.text.split_once(" MHz counter")?;
            let mhz: f64 = head.rsplit(' ').next()?.parse().ok()?;
            (mhz > 0.0).then_some(mhz * 1e6)
        }),
        name if name.starts_with("tsc") => kernel_tsc_hz(case).map(|hz| hz as f64),
        _ => None,
    }
}

fn name(event: &LogEvent) -> String {
    match event {
        LogEvent::WatchdogInterval { clocksource, .. } => clocksource.clone(),
        _ => String::new(),
    }
}

/// `delta = N ns`, all that kernels before about 3.13 log.
fn old_delta_ns(line: &LogLine) -> Option<f64> {
    let (_, after) = line.text.split_once("delta = ")?;
    after.split_whitespace().next()?.parse().ok()
}

/// `wd_now: 5f… wd_last: 5e… mask: ffffff` of a watchdog line, `cs_now` and
/// `cs_last` of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counter {
    now: u64,
    last: u64,
    mask: u64,
}

impl Counter {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let (_, after) = text.split_once(name)?;
            u64::from_str_radix(after.split_whitespace().next()?, 16).ok()
        };
        Some(Self { now: field("_now: ")?, last: field("_last: ")?, mask: field("mask: ")? })
    }

    /// Ticks between its two readings. One that went backward counts as 0, as
    /// in the kernel (kernel/time/timekeeping_internal.h,
    /// `clocksource_delta`).
    fn ticks(self) -> u64 {
        if self.backward().is_some() { 0 } else { self.now.wrapping_sub(self.last) & self.mask }
    }

    /// How long it takes to wrap, if `ns` passed between its two readings.
    fn wrap_ns(self, ns: f64) -> Option<f64> {
        let ticks = self.ticks();
        (ticks > 0 && self.mask < u64::MAX).then(|| ns / ticks as f64 * (self.mask as f64 + 1.0))
    }

    /// A 64-bit counter that is smaller than before went backward: it takes
    /// centuries to wrap.
    fn backward(self) -> Option<u64> {
        (self.mask == u64::MAX && self.now < self.last).then(|| self.last - self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_wrap_follows_from_its_own_reading() {
        // acpi_pm: 24 bits at 3.579545 MHz, here across its wrap.
        let line = "'acpi_pm' wd_nsec: 499998883 wd_now: 10e1d1 wd_last: f5922c mask: ffffff";
        let counter = Counter::parse(line).unwrap();
        let wrap_ns = counter.wrap_ns(499_998_883.0).unwrap();
        assert!((wrap_ns / 1e9 - 4.687).abs() < 0.001, "{wrap_ns}");
        assert_eq!(counter.backward(), None);
    }

    #[test]
    fn a_smaller_tsc_went_backward() {
        let line = "'tsc' cs_nsec: 0 cs_now: 1000 cs_last: 9000 mask: ffffffffffffffff";
        assert_eq!(Counter::parse(line).unwrap().backward(), Some(0x8000));
    }

    #[test]
    fn lines_cut_short_give_no_counter() {
        for line in ["", "'hpet' wd_now: ", "wd_now: zz wd_last: 1 mask: 3", "wd_now: 1 mask: 3"] {
            assert_eq!(Counter::parse(line), None, "{line:?}");
        }
    }
}
