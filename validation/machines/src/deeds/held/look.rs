//! What a machine's clock, kernel and daemon show.

use std::fmt;
use std::time::Duration;

use pvclock::vmclock::VmClockInfo;
use serde_json::Value;

use crate::machine::Machine;

/// Beside what a look waits for, s.
const SPARE_S: u32 = 60;

/// Between the parts of a look.
const PART: &str = "\n@\n";

/// The TSC between two readings of a clock.
#[derive(Debug, Clone, Copy)]
struct Between {
    before_ns: i64,
    count: u64,
    after_ns: i64,
}

impl Between {
    /// The clock at the count is within [`Between::known_ns`] of this.
    fn ns(&self) -> i64 {
        self.before_ns + (self.after_ns - self.before_ns) / 2
    }

    fn known_ns(&self) -> f64 {
        // The half is rounded.
        (self.after_ns - self.before_ns) as f64 / 2.0 + 1.0
    }
}

/// A line of `guest-clock tsc-pairs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    realtime: Between,
    raw: Between,
}

/// The lines of `guest-clock tsc-pairs`.
pub(super) fn pairs(text: &str) -> Result<Vec<Pair>, String> {
    let pair = |line: &str| {
        let mut words = line.split(' ');
        let mut between = || {
            let before_ns = words.next()?.parse().ok()?;
            let count = words.next()?.parse().ok()?;
            let after_ns = words.next()?.parse().ok().filter(|after_ns| *after_ns >= before_ns)?;
            Some(Between { before_ns, count, after_ns })
        };
        let (realtime, raw) = between().zip(between())?;
        words.next().is_none().then_some(Pair { realtime, raw })
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    let known = lines.map(|line| pair(line).ok_or_else(|| format!("guest-clock printed {line:?}")));
    known.collect()
}

/// The counter's rate by CLOCK_MONOTONIC_RAW, Hz, and the time of day at the last count.
pub(super) fn rate(pairs: &[Pair]) -> Result<(f64, (Duration, u64)), String> {
    let [first, .., last] = pairs else { return Err(format!("of two looks {}", pairs.len())) };
    let counts = last.raw.count.wrapping_sub(first.raw.count) as f64;
    let ns = last.raw.ns() - first.raw.ns();
    let at_ns = u64::try_from(last.realtime.ns()).map_err(|error| error.to_string())?;
    Ok((counts / ns as f64 * 1e9, (Duration::from_nanos(at_ns), last.realtime.count)))
}

/// How far the clock is ahead of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    pub(super) ns: f64,
    /// How well that is known.
    pub(super) known_ns: f64,
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ± {:.2} µs", self.ns / 1e3, self.known_ns / 1e3)
    }
}

/// How fast the bound grows that `parachron status` states (docs/guide/keep.md#parachron-status), ns a
/// second: half a second after a measurement it is hardly about that measurement.
const GROWS_NS: f64 = 1e6;

/// The bound of the selected source's offset, as it was measured.
fn bound_ns(status: &Value) -> Option<f64> {
    let mut sources = crate::checks::list(&status["sources"]).iter();
    let selected = sources.find(|source| source["state"] == "selected")?;
    let grown_ns = selected["age_s"].as_f64()? * GROWS_NS;
    Some(selected["bound_ns"].as_f64()? - grown_ns)
}

/// A look at the machine.
#[derive(Debug)]
pub(super) struct Look {
    pairs: Vec<Pair>,
    /// By the kernel: the frequency that is set, and the clock's error as it was told.
    pub(super) frequency_ppm: f64,
    pub(super) estimated_ns: f64,
    /// By the daemon: the clock's state, and the bound of its offset as it was measured.
    pub(super) state: String,
    bound_ns: Option<f64>,
    log: String,
}

impl Look {
    /// Waits, and looks so often at the clock; all in one command, as time passes quickly
    /// while a machine waits for the next.
    pub(super) fn at(
        machine: &mut Machine,
        wait_s: u32,
        looks: u32,
        each_ms: u32,
    ) -> Result<Self, String> {
        let line = format!(
            "sleep {wait_s}; guest-clock tsc-pairs {looks} {each_ms}; echo @; adjtimex; echo @; \
             parachron status --format json; echo @; tail -n 4 /tmp/held"
        );
        let limit_s = wait_s + looks * each_ms / 1000 + SPARE_S;
        let record = machine.line.run("look", limit_s, &line)?;
        Self::parse(&record.stdout).map_err(|why| format!("{why} {}", record.stderr.trim()))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.splitn(4, PART).collect();
        let [clock, kernel, daemon, log] = parts[..] else {
            return Err(format!("no look: {text:?}"));
        };
        // `-f freq.adjust: 3276800 (65536 = 1ppm)`, `esterror: 16 us`.
        let figure = |name: &str| -> Result<f64, String> {
            let value = kernel.split_once(name).map(|(_, rest)| rest.trim_start());
            let word = value.and_then(|rest| rest.split_whitespace().next());
            let figure = word.and_then(|word| word.parse().ok());
            figure.ok_or_else(|| format!("adjtimex printed no {name} {kernel:?}"))
        };
        let status: Value =
            serde_json::from_str(daemon).map_err(|error| format!("status: {error}: {daemon:?}"))?;
        Ok(Self {
            pairs: pairs(clock)?,
            frequency_ppm: figure("freq.adjust:")? / 65536.0,
            estimated_ns: figure("esterror:")? * 1000.0,
            state: status["clock"]["state"].as_str().unwrap_or("no state").to_owned(),
            bound_ns: bound_ns(&status),
            log: log.trim().to_owned(),
        })
    }

    pub(super) fn bound_ns(&self) -> Result<f64, String> {
        self.bound_ns.ok_or_else(|| format!("it states no bound: {}; {}", self.state, self.log))
    }

    /// The end of the daemon's log, where something was wrong.
    pub(super) fn log(&self, is_right: bool) -> String {
        if is_right { String::new() } else { format!("; {}", self.log) }
    }

    /// How far the clock was ahead of the page each time.
    pub(super) fn ahead(&self, truth: &VmClockInfo) -> Result<Vec<Ahead>, String> {
        let ahead = |Pair { realtime, .. }: &Pair| {
            let ns = (realtime.ns() - page_ns(truth, realtime.count)?) as f64;
            Ok(Ahead { ns, known_ns: realtime.known_ns() })
        };
        self.pairs.iter().map(ahead).collect()
    }

    /// From the first look to the last, s.
    pub(super) fn lasted_s(&self) -> f64 {
        let ends = self.pairs.first().zip(self.pairs.last());
        ends.map_or(0.0, |(first, last)| (last.raw.ns() - first.raw.ns()) as f64 / 1e9)
    }

    /// From the last look of another, s by the page.
    pub(super) fn since_s(&self, other: &Self, truth: &VmClockInfo) -> Result<f64, String> {
        let at_ns = |look: &Self| {
            let last = look.pairs.last().ok_or("no look")?;
            page_ns(truth, last.realtime.count)
        };
        Ok((at_ns(self)? - at_ns(other)?) as f64 / 1e9)
    }

    /// What the frequency has to be, and how well that is known, ppm.
    pub(super) fn expected_ppm(&self, truth: &VmClockInfo) -> Result<(f64, f64), String> {
        let [first, .., last] = &self.pairs[..] else { return Err("no two looks".to_owned()) };
        let raw_ns = (last.raw.ns() - first.raw.ns()) as f64;
        let page_ns = page_ns(truth, last.raw.count)? - page_ns(truth, first.raw.count)?;
        let known_ns = first.raw.known_ns() + last.raw.known_ns();
        Ok(((page_ns as f64 / raw_ns - 1.0) * 1e6, known_ns / raw_ns * 1e6))
    }
}

/// The page's time at a count, ns since 1970.
fn page_ns(page: &VmClockInfo, count: u64) -> Result<i64, String> {
    let time = page.time_at(count).map_err(|error| error.to_string())?;
    time.utc().map(|utc| utc.since_1970_ns).map_err(|error| error.to_string())
}
