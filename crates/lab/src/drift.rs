//! Guest time against host time, for every provider and clock at once.

mod subject;
mod theory;

use std::time::Duration;

use host::HostClocks;
use pvclock::{Hertz, Nanos};
use serde::Serialize;
use subject::DriftSubject;
use theory::{
    MeasuredDrift, TOLERANCE_PPM, UNCERTAIN_PPM, counted_s, is_by_tsc, resolution_ns, verdict,
};
use vmm::host_clock;

use crate::bench::{CLOCK_BY, LabBench, Provider};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable, Verdict};
use crate::sample::{boot_ns, middle_ns, not_read, providers, sleep_until};
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::TscOffsets;

pub(crate) use subject::SubjectSeries;
pub(crate) use theory::drift_ppm;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// People quote drift as what a clock counts in 5 minutes.
const QUOTED_S: f64 = 300.0;

/// One clock's drift.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DriftRow {
    clock_by: &'static str,
    source: &'static str,
    /// The TSC frequency the guest uses.
    guest_tsc_mhz: f64,
    host_s: f64,
    guest_s: f64,
    per_300_s: f64,
    drift_ppm: f64,
    theory_ppm: f64,
    /// What the drift misses theory by, where it is certain enough.
    error_ppm: Option<f64>,
    uncertainty_ppm: f64,
    /// Guest minus host over time: s since the start, then ms.
    track: Vec<(f64, f64)>,
}

fn table(rows: &[DriftRow]) -> ResultTable {
    use ColumnForm::{Digits, Name};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("source", "guest's clock", "", Name),
        ("guest_tsc_mhz", "TSC", "MHz", Digits(1)),
        ("host_s", "host", "s", Digits(1)),
        ("per_300_s", "in 300 s", "s", Digits(2)),
        ("drift_ppm", "drift", "ppm", Digits(1)),
        ("theory_ppm", "theory", "ppm", Digits(1)),
        ("error_ppm", "error", "ppm", Digits(1)),
        ("uncertainty_ppm", "±", "ppm", Digits(1)),
    ];
    ResultTable::new("Drift: guest time against host time", &columns, rows)
        .worst("error_ppm")
        .note(CLOCK_BY)
        .note(
            "TSC: the frequency the guest uses, advertised or measured by the guest. in 300 s: \
             what the guest counts in 5 minutes of the host. ±: the bound of reading both clocks.",
        )
}

/// How long before the RTC's edge a vCPU begins to poll it: enough to be woken,
/// and no longer than a scheduler lets a woken thread run, as other threads
/// need the CPU too. On a machine with 6 such threads for 2 CPUs, 6 of 28
/// readings were tighter than 1 ms with 20 ms, and 26 of 38 with 8 ms.
const EDGE_AHEAD: Duration = Duration::from_millis(6);
/// With less time it might miss the edge, and poll for a second.
const EDGE_AHEAD_MIN: Duration = Duration::from_millis(3);
/// An edge this soon after a sample is due goes first: the sample would miss it.
const EDGE_FIRST: Duration = Duration::from_millis(100);

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let mut checks = Vec::new();
    let mut subjects = Vec::new();
    for provider in providers(bench.settings) {
        progress.step(&format!("starting {}", provider.label()), 0.0);
        match DriftSubject::start(bench, provider) {
            Ok(subject) => subjects.push(subject),
            Err(error) => checks.push(not_read(provider.label().to_owned(), expected(0.0), &error)),
        }
    }
    let began = host_clock::read();
    sample_all(&mut subjects, bench.settings.drift, progress);
    let host_rate = tsc_rate(began, host_clock::read(), bench.host_tsc);
    let mut rows = Vec::new();
    for subject in &subjects {
        let factor = bench.advertised_over_true(subject.provider) / host_rate;
        for series in &subject.series {
            let waited = subject.waited();
            let (row, check) = judge(subject.provider, &subject.found, series, factor, waited);
            rows.extend(row);
            // A guest measures its TSC by another clock, and a provider outside KVM computes
            // with it: neither can follow offsets that KVM changes by itself.
            let is_touched = subject.provider.is_own() && is_by_tsc(series.source);
            let moved = if is_touched && check.verdict == Verdict::Failed {
                TscOffsets::probe()?.why_moved()
            } else {
                None
            };
            checks.push(check.excused(moved));
        }
    }
    Ok((table(&rows), checks))
}

/// The host's TSC by its own clock, over the frequency that the kernel has for it.
fn tsc_rate(began: HostClocks, ended: HostClocks, hertz: Hertz) -> f64 {
    let cycles = ended.tsc.0.wrapping_sub(began.tsc.0) as f64;
    let ns = ended.boot.0.saturating_sub(began.boot.0) as f64;
    if ns > 0.0 { cycles / ns * 1e9 / hertz.0 as f64 } else { 1.0 }
}

/// Samples all clocks over `duration`.
fn sample_all(subjects: &mut [DriftSubject], duration: Duration, progress: &mut dyn LabProgress) {
    let schedule = DriftSchedule::new(duration, subjects.len());
    let start = boot_ns();
    for step in 0..=schedule.steps() {
        let due = start + schedule.due(step).as_nanos() as u64;
        // Samples of this step may be a few ms late: each has its own time.
        while poll_edge_before(subjects, due, schedule.pollers()) {}
        sleep_until(due);
        let done = f64::from(step) / f64::from(schedule.steps());
        progress.step(&format!("sampling {} machines", subjects.len()), done);
        for subject in subjects.iter_mut() {
            subject.sample();
        }
    }
}

/// Has the machines with the fewest edges poll for the next second's, if it
/// comes before `due` or little after.
fn poll_edge_before(subjects: &mut [DriftSubject], due: u64, pollers: usize) -> bool {
    let earliest = host_clock::read();
    let past = earliest.real.0.0 % NANOS_PER_SECOND;
    let mut edge = earliest.boot.0 + (NANOS_PER_SECOND - past);
    if edge < earliest.boot.0 + EDGE_AHEAD_MIN.as_nanos() as u64 {
        edge += NANOS_PER_SECOND;
    }
    let mut polling: Vec<&mut DriftSubject> =
        subjects.iter_mut().filter(|subject| subject.has_edges()).collect();
    if edge >= due + EDGE_FIRST.as_nanos() as u64 || polling.is_empty() {
        return false;
    }
    polling.sort_by_key(|subject| subject.edges_seen());
    polling.truncate(pollers);
    sleep_until(edge.saturating_sub(EDGE_AHEAD.as_nanos() as u64));
    for subject in &polling {
        subject.poll_edge();
    }
    for subject in polling {
        subject.take_edge();
    }
    true
}

fn expected(theory_ppm: f64) -> String {
    format!("within its uncertainty and {TOLERANCE_PPM} ppm of {theory_ppm:+.1} ppm")
}

/// A clock's row, if it was read often enough, and its check.
pub(crate) fn judge(
    provider: Provider,
    guest: &guest::discovery::Discovery,
    series: &SubjectSeries,
    advertised_over_true: f64,
    waited: Option<Nanos>,
) -> (Option<DriftRow>, Check) {
    let source = series.source;
    let theory_ppm = theory::drift_ppm(source, guest.frequency_from, advertised_over_true);
    let name = format!("{}: {}", provider.label(), source.name());
    let Some(measured) = MeasuredDrift::from_readings(&series.readings, resolution_ns(source))
    else {
        let check = match &series.error {
            Some(error) => not_read(name, expected(theory_ppm), error),
            None => {
                let found = format!("{} reading(s)", series.readings.len());
                let why = format!("{found}; a rate needs two, at different times");
                Check::not_measured(name, expected(theory_ppm), why)
            }
        };
        return (None, check);
    };
    let drift_ppm = measured.drift_ppm();
    let uncertainty_ppm = measured.uncertainty_ppm() + theory::frequency_bound_ppm(source, guest);
    let check = Check {
        name,
        expected: expected(theory_ppm),
        found: format!("{drift_ppm:+.1} ppm, ± {uncertainty_ppm:.1} ppm"),
        verdict: verdict(drift_ppm - theory_ppm, uncertainty_ppm, waited),
    };
    let row = DriftRow {
        clock_by: provider.label(),
        source: source.name(),
        guest_tsc_mhz: guest.tsc.0 as f64 / 1e6,
        host_s: measured.host_s(),
        guest_s: measured.guest_s(),
        per_300_s: counted_s(QUOTED_S, drift_ppm),
        drift_ppm,
        theory_ppm,
        error_ppm: (uncertainty_ppm <= UNCERTAIN_PPM).then_some(drift_ppm - theory_ppm),
        uncertainty_ppm,
        track: track(series),
    };
    (Some(row), check)
}

/// Guest minus host since the first reading: s, then ms.
fn track(series: &SubjectSeries) -> Vec<(f64, f64)> {
    let Some(first) = series.readings.first() else { return Vec::new() };
    let points = series.readings.iter().map(|reading| {
        let host_ns = middle_ns(*reading) - middle_ns(*first);
        let guest_ns = reading.tsc.wrapping_sub(first.tsc) as f64;
        (host_ns / 1e9, (guest_ns - host_ns) / 1e6)
    });
    points.collect()
}

// When the machines are sampled, on two CPUs.
//
// All machines run at the same time, and are idle except when sampled. The RTC is polled
// for the edge of its second: at each edge by few machines, those with the fewest edges
// so far.

/// The ACPI PM timer's 24 bits wrap in 4.69 s: sampled in half of that.
const STEP_MAX: Duration = Duration::from_secs(2);

/// At least so many steps: some samples are disturbed.
const STEPS_MIN: u32 = 10;

/// Steps of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DriftSchedule {
    duration: Duration,
    machines: u32,
}

impl DriftSchedule {
    /// For `machines`, at least one.
    fn new(duration: Duration, machines: usize) -> Self {
        Self { duration, machines: (machines as u32).max(1) }
    }

    /// How many; there is a sample before the first and after each.
    fn steps(self) -> u32 {
        let steps = self.duration.as_nanos().div_ceil(STEP_MAX.as_nanos());
        (steps as u32).max(STEPS_MIN)
    }

    /// When the sample after `step` steps is due, since the start.
    fn due(self, step: u32) -> Duration {
        self.duration * step / self.steps()
    }

    /// How many machines poll for each edge of the RTC, so that each sees two
    /// even if it misses one.
    fn pollers(self) -> usize {
        let edges = u32::try_from(self.duration.as_secs()).unwrap_or(u32::MAX);
        let polls = self.machines * 2;
        polls.div_ceil(edges.saturating_sub(1).max(1)).min(self.machines) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_machines_share_ten_seconds() {
        let schedule = DriftSchedule::new(Duration::from_secs(10), 5);
        assert_eq!((schedule.steps(), schedule.pollers()), (10, 2));
        assert_eq!(schedule.due(3), Duration::from_secs(3));
    }

    #[test]
    fn no_step_is_longer_than_the_pm_timer_allows() {
        let schedule = DriftSchedule::new(Duration::from_secs(300), 4);
        assert!(schedule.due(1) <= STEP_MAX, "{schedule:?}");
        assert_eq!(schedule.due(schedule.steps()), Duration::from_secs(300));
        assert_eq!(schedule.pollers(), 1);
    }

    #[test]
    fn a_short_run_polls_on_all_machines_at_once() {
        let schedule = DriftSchedule::new(Duration::from_secs(2), 5);
        assert_eq!((schedule.steps(), schedule.pollers()), (10, 5));
        assert_eq!(DriftSchedule::new(Duration::from_millis(500), 0).pollers(), 1);
    }
}
