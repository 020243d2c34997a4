//! The interval in which the watchdog found the TSC unstable, in figures.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::cause::{LATE_NS, PLAUSIBLE_HZ, USUAL_NS};
use super::counter::WatchdogCounter;
use super::damage;
use super::rate::{self, CounterRate};
use crate::case::Case;

/// One interval by the two clocks.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct WatchdogInterval {
    /// The reference, where the log names it.
    pub(super) reference: Option<WatchdogReference>,
    /// Length by the reference as the kernel took it, ns.
    pub(super) reference_ns: Option<f64>,
    /// The TSC's counter, where the log gives it.
    pub(super) tsc: Option<WatchdogCounter>,
    /// Length by the TSC, ns.
    pub(super) tsc_ns: Option<f64>,
    /// The source's name in the log: `tsc` or `tsc-early`.
    tsc_name: String,
    /// The TSC's rate, where its length had to be computed.
    tsc_rate: Option<CounterRate>,
    /// TSC's length minus the reference's, ns.
    pub(super) skew_ns: Option<f64>,
    /// The log gives nanoseconds, so this kernel reads the TSC between two
    /// reads of the reference (5.13).
    pub(super) bracketed: bool,
    /// A second reference, which some kernels print.
    pub(super) second: Option<WatchdogReference>,
    /// Its length as the log gives it, ns.
    second_ns: Option<u64>,
    /// What of these lines cannot be as the kernel printed it.
    pub(super) damage: Option<String>,
}

/// The clock that the TSC was compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WatchdogReference {
    pub(super) name: String,
    pub(super) counter: Option<WatchdogCounter>,
    /// Length by the counter, whether or not the kernel discarded it, ns.
    pub(super) counted_ns: Option<f64>,
    /// The time in which its counter wraps, ns.
    pub(super) wrap_ns: Option<f64>,
    /// Its rate, where its length had to be computed.
    rate: Option<CounterRate>,
}

/// The reads of a wrap's figures may be this far apart, ns.
const READ_SLACK_NS: f64 = 2e6;

/// Lines that can follow a verdict with its figures.
const REACH: usize = 6;

impl WatchdogInterval {
    /// The figures in the lines after the verdict in line `at`, or in it.
    pub(super) fn parse_after(case: &Case<'_>, log: &[LogLine], at: usize) -> Option<Self> {
        let after = &log[at + 1..log.len().min(at + 1 + REACH)];
        let is_figure = |line: &LogLine| {
            matches!(line.event, LogEvent::WatchdogInterval { .. } | LogEvent::Skew { .. })
        };
        // tsc.c repeats the verdict after its figures; the first line may be missing.
        // A pager may show the newest line first.
        let lines =
            if !after.iter().any(is_figure) { &log[at.saturating_sub(REACH)..at] } else { after };
        let mut found = Self::default();
        let mut logged = None;
        for line in lines {
            found.bracketed |= matches!(
                line.event,
                LogEvent::WatchdogInterval { interval_ns: Some(_), .. } | LogEvent::Skew { .. }
            );
            match &line.event {
                LogEvent::SecondReference { clocksource, interval_ns } => {
                    found.second_ns = *interval_ns;
                    found.second =
                        Some(WatchdogReference::parse(case, clocksource, &line.text, *interval_ns));
                }
                LogEvent::WatchdogInterval { watchdog: true, clocksource, interval_ns } => {
                    let reference =
                        WatchdogReference::parse(case, clocksource, &line.text, *interval_ns);
                    found.reference_ns = reference.kernel_ns(*interval_ns);
                    found.reference = Some(reference);
                }
                LogEvent::WatchdogInterval { watchdog: false, clocksource, interval_ns } => {
                    found.tsc_name = clocksource.clone();
                    found.set_tsc(case, WatchdogCounter::parse(&line.text), *interval_ns);
                }
                LogEvent::Skew { skew_ns, interval_ns, .. } => {
                    logged = Some((*skew_ns, *interval_ns));
                    found.skew_ns = Some(*skew_ns as f64);
                    found.reference_ns.get_or_insert(*interval_ns as f64);
                }
                LogEvent::MarkedUnstable { .. } => break,
                _ => {}
            }
        }
        let reference = found.reference.as_ref();
        let counters = damage::IntervalCounters {
            reference: reference.and_then(|clock| Some((clock.name.as_str(), clock.counter?))),
            tsc: found.tsc,
        };
        found.damage = damage::find(case, lines, &counters, logged);
        found.refit();
        let both = found.reference_ns.zip(found.tsc_ns);
        found.skew_ns = both
            .map(|(reference, tsc)| tsc - reference)
            .or(found.skew_ns)
            .or_else(|| old_delta_ns(&log[at]));
        (found != Self::default()).then_some(found)
    }

    fn set_tsc(
        &mut self,
        case: &Case<'_>,
        counter: Option<WatchdogCounter>,
        logged_ns: Option<u64>,
    ) {
        self.tsc = counter;
        self.tsc_ns = logged_ns.map(|ns| ns as f64);
        if let (None, Some(counter)) = (logged_ns, counter) {
            let early = self.tsc_name == "tsc-early";
            self.tsc_rate =
                early.then(|| rate::detected(case)).flatten().or_else(|| rate::tsc(case));
            self.tsc_ns = self.tsc_rate.map(|rate| counter.ticks() as f64 / rate.hz * 1e9);
        }
    }

    /// Ticks that the kernel counted for nothing have no length in the log: where the
    /// rate assumed does not fit the TSC, another one may.
    fn refit(&mut self) {
        let Some((reference, tsc_ns)) = self.reference.as_ref().zip(self.tsc_ns) else { return };
        let slack_ns = self.slack_ns(tsc_ns);
        let fits = |reference: &WatchdogReference| reference.wraps(tsc_ns, slack_ns).is_some();
        if fits(reference) || !reference.counter.is_some_and(WatchdogCounter::is_discarded) {
            return;
        }
        let other = reference.with_other_rates().find(fits);
        if other.is_some() {
            self.reference = other;
        }
    }

    /// How far two lengths about so long may be apart for the rates and the reads.
    pub(super) fn slack_ns(&self, ns: f64) -> f64 {
        ns * self.tolerance() + READ_SLACK_NS
    }

    /// Whether the log gives a difference, and neither counters nor the interval.
    pub(super) fn is_difference_alone(&self) -> bool {
        self.reference_ns.is_none() && self.tsc_ns.is_none() && self.tsc.is_none()
    }

    pub(super) fn has_reference_counter(&self) -> bool {
        self.reference.as_ref().is_some_and(|reference| reference.counter.is_some())
    }

    /// Whether the reference is QEMU's HPET, whose reads leave the guest
    /// (hw/timer/hpet.c: a period of 10 ns).
    pub(super) fn has_emulated_hpet(&self) -> bool {
        let ticks = || Some(self.reference.as_ref()?.counter?.ticks() as f64);
        let is_hpet = self.reference.as_ref().is_some_and(|reference| reference.name == "hpet");
        let hz = ticks().zip(self.reference_ns).map(|(ticks, ns)| ticks / ns * 1e9);
        is_hpet && hz.is_some_and(|hz| (hz / 1e8 - 1.0).abs() < 1e-2)
    }

    /// What the difference is by the counters where the kernel used another interval, or
    /// had the TSC counted its usual half second.
    fn by_counters(&self) -> Option<String> {
        let reference = self.reference.as_ref()?;
        let counted_ns = reference.counted_ns?;
        let signed = |ns| figures::signed(ns, figures::time);
        if let Some(tsc_ns) = self.tsc_ns {
            let differs = self.reference_ns.is_some_and(|ns| (ns - counted_ns).abs() > 1e6);
            return differs.then(|| {
                let by = signed(tsc_ns - counted_ns);
                format!("TSC minus {} by their counters: {by}", reference.name)
            });
        }
        let is_usual = PLAUSIBLE_HZ.contains(&self.tsc_hz_over(USUAL_NS)?);
        (is_usual && counted_ns > LATE_NS).then(|| {
            format!(
                "TSC minus {} if the TSC counted its usual 0.5 s: {}",
                reference.name,
                signed(USUAL_NS - counted_ns)
            )
        })
    }

    /// How many timer ticks the reference did not count, where it counts those.
    fn missing_ticks(&self) -> Option<String> {
        let reference = self.reference.as_ref().filter(|clock| clock.name.contains("jiffies"))?;
        let tick_ns = self.reference_ns? / reference.counter?.ticks() as f64;
        let missing = (self.skew_ns? / tick_ns).round();
        (tick_ns.is_finite() && missing >= 1.0).then(|| {
            let length = figures::time(tick_ns);
            format!("{} counted {missing} ticks of {length} too few", reference.name)
        })
    }

    /// The reference's name, or what it is.
    pub(super) fn reference_name(&self) -> &str {
        self.reference.as_ref().map_or("the reference", |reference| &reference.name)
    }

    /// By how many cycles the TSC went backward; `None` within for a line that
    /// gives no counter.
    pub(super) fn backward(&self) -> Option<Option<u64>> {
        if let Some(cycles) = self.tsc.and_then(WatchdogCounter::backward) {
            return Some(Some(cycles));
        }
        // The kernel counts such a TSC as 0, so the skew is the whole interval.
        let stood = self.tsc.is_none() && self.tsc_ns.is_none_or(|ns| ns == 0.0);
        let whole = self.skew_ns.zip(self.reference_ns);
        whole.filter(|(skew, ns)| stood && *ns > 0.0 && *skew == -ns).map(|_| None)
    }

    /// Skew as a rate, ppm of the reference's interval.
    pub(super) fn ppm(&self) -> Option<f64> {
        let (skew, ns) = self.skew_ns.zip(self.reference_ns)?;
        (ns > 0.0).then(|| skew / ns * 1e6)
    }

    /// The TSC's rate if `length_ns` passed: an estimate where none is known.
    pub(super) fn tsc_hz_over(&self, length_ns: f64) -> Option<f64> {
        let cycles = self.tsc?.ticks() as f64;
        (cycles > 0.0 && length_ns > 0.0).then(|| cycles / length_ns * 1e9)
    }

    /// How far the TSC's length may be off for want of an exact rate.
    fn tolerance(&self) -> f64 {
        let of = |rate: Option<CounterRate>| rate.map_or(2e-3, |rate| rate.from.tolerance());
        of(self.tsc_rate).max(of(self.reference.as_ref().and_then(|reference| reference.rate)))
    }

    /// What the log gives in ns, to the last digit.
    fn exactly(&self) -> Option<String> {
        let name = self.reference_name();
        match (self.skew_ns, self.reference_ns, self.tsc_ns) {
            _ if !self.bracketed || self.backward().is_some() => None,
            (Some(skew), Some(ns), _) => Some(format!(
                "TSC minus {name}: {skew} ns in {ns} ns according to the kernel's own figures"
            )),
            (None, None, Some(ns)) => {
                Some(format!("TSC: {ns} ns according to the kernel's own figures"))
            }
            _ => None,
        }
    }

    /// The sums, so that they can be redone.
    pub(super) fn sums(&self) -> Vec<String> {
        let name = self.reference_name();
        let mut lines = Vec::new();
        // What the kernel takes for 0 is no length.
        if let Some(skew_ns) = self.skew_ns.filter(|_| self.backward().is_none()) {
            let skew = figures::signed(skew_ns, figures::time);
            lines.push(match self.reference_ns {
                Some(ns) => {
                    // More is not a rate.
                    const RATE_PPM: f64 = 100_000.0;
                    let rate = match self.ppm().filter(|ppm| ppm.abs() < RATE_PPM) {
                        Some(ppm) => format!(" ({})", figures::ppm(ppm)),
                        None => String::new(),
                    };
                    format!(
                        "TSC minus {name}: {skew} in an interval of {}{rate}",
                        figures::time(ns)
                    )
                }
                None => format!(
                    "TSC minus {name}: {skew} ({skew_ns} ns); the log does not give the interval"
                ),
            });
        }
        let rates = [
            ("TSC", self.tsc_rate),
            (name, self.reference.as_ref().and_then(|reference| reference.rate)),
        ];
        for (counter, rate) in rates {
            if let Some(rate) = rate {
                lines.push(format!("{counter}: {}", rate.in_words()));
            }
        }
        lines.extend(self.missing_ticks());
        lines.extend(self.by_counters());
        lines.extend(self.exactly());
        let second = self.second.as_ref();
        lines.extend(second.zip(self.second_ns).map(|(second, ns)| {
            format!("{}: {ns} ns according to the kernel's own figures", second.name)
        }));
        let counters = [
            ("TSC", self.tsc),
            (name, self.reference.as_ref().and_then(|reference| reference.counter)),
            (second.map_or("", |second| &second.name), second.and_then(|second| second.counter)),
        ];
        lines.extend(
            counters
                .into_iter()
                .filter_map(|(name, counter)| Some(format!("{name}: {}", counter?.difference()))),
        );
        lines
    }
}

impl WatchdogReference {
    fn parse(case: &Case<'_>, name: &str, text: &str, logged_ns: Option<u64>) -> Self {
        let counter = WatchdogCounter::parse(text);
        let ticks = counter.map_or(0, WatchdogCounter::ticks);
        let mut rate = None;
        // A logged length and its ticks give the rate, unless the kernel
        // counted 0 for them.
        let mut hz =
            logged_ns.filter(|ns| *ns > 0 && ticks > 0).map(|ns| ticks as f64 / ns as f64 * 1e9);
        if hz.is_none() && counter.is_some() {
            rate = rate::reference(case, name, ticks);
            hz = rate.map(|rate| rate.hz);
        }
        let (counted_ns, wrap_ns) = (None, None);
        let it = Self { name: name.to_owned(), counter, counted_ns, wrap_ns, rate };
        match hz {
            Some(hz) => it.counted_at(hz),
            None => it,
        }
    }

    /// Its lengths if its counter runs at that rate.
    fn counted_at(self, hz: f64) -> Self {
        let ticks = self.counter.map_or(0, WatchdogCounter::ticks);
        let range = self.counter.and_then(WatchdogCounter::range);
        Self {
            counted_ns: Some(ticks as f64 / hz * 1e9),
            wrap_ns: range.map(|range| range / hz * 1e9),
            ..self
        }
    }

    /// It by other rates, where its own is but assumed.
    pub(super) fn with_other_rates(&self) -> impl Iterator<Item = Self> {
        let rates = self.rate.into_iter().flat_map(rate::alternatives);
        rates.map(|rate| Self { rate: Some(rate), ..self.clone() }.counted_at(rate.hz))
    }

    /// Whether it is a clock page of the hypervisor.
    pub(super) fn is_page(&self) -> bool {
        matches!(self.name.as_str(), "kvm-clock" | "xen" | "hyperv_clocksource_tsc_page")
    }

    /// With how many wraps its counter agrees with the TSC's length, if it does.
    pub(super) fn wraps(&self, tsc_ns: f64, slack_ns: f64) -> Option<u32> {
        let (counted_ns, wrap_ns) = self.counted_ns.zip(self.wrap_ns)?;
        let times = ((tsc_ns - counted_ns) / wrap_ns).round().max(0.0);
        let rest_ns = tsc_ns - counted_ns - times * wrap_ns;
        (rest_ns.abs() <= slack_ns).then_some(times as u32)
    }

    /// The interval as the kernel took it.
    fn kernel_ns(&self, logged_ns: Option<u64>) -> Option<f64> {
        if let Some(ns) = logged_ns {
            return Some(ns as f64);
        }
        let discarded = self.counter.is_some_and(WatchdogCounter::is_discarded);
        self.counted_ns.map(|ns| if discarded { 0.0 } else { ns })
    }
}

/// `delta = N ns`, all that kernels before about 3.13 log.
pub(super) fn old_delta_ns(line: &LogLine) -> Option<f64> {
    // The sign of equality may be lost in a mail's encoding.
    let (_, after) = line.text.split_once("(delta")?;
    after.trim_start_matches([' ', '=']).split([' ', 'n', ')']).next()?.parse().ok()
}
