//! Guest time against host time, for every provider and clock at once.

mod schedule;
mod subject;
mod theory;

use std::time::Duration;

use vmm::host_clock;

use crate::bench::{Bench, Maker};
use crate::results::{Check, Drift, Findings, Verdict};
use crate::run::Found;
use crate::sample::{boot_ns, makers, middle_ns, missed, sleep_until};
use crate::settings::{LabError, Progress};
use schedule::Schedule;
use subject::Subject;
use theory::{Measured, TOLERANCE_PPM, counted_s, resolution_ns, verdict};

pub(crate) use subject::Series;
pub(crate) use theory::drift_ppm;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// People quote drift in what 5 minutes become.
const QUOTED_S: f64 = 300.0;

/// How long before its edge a vCPU is set to watch the RTC: enough for it to
/// be woken, and no longer than a scheduler leaves the last one woken alone,
/// for other threads want the CPU too. On a machine with 6 of those for 2
/// CPUs, 6 of 28 readings were tighter than 1 ms with 20 ms, and 26 of 38 with
/// 8 ms.
const EDGE_AHEAD: Duration = Duration::from_millis(6);
/// Later than this it might miss it, and spin for a second.
const EDGE_AHEAD_MIN: Duration = Duration::from_millis(3);
/// An edge so soon after a look is due goes first: the look would outlast it.
const EDGE_FIRST: Duration = Duration::from_millis(100);

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let mut checks = Vec::new();
    let mut subjects = Vec::new();
    for maker in makers(bench.settings) {
        progress.step(&format!("starts {}", maker.label()), 0.0);
        match Subject::start(bench, maker) {
            Ok(subject) => subjects.push(subject),
            Err(error) => checks.push(missed(maker.label().to_owned(), bar(0.0), &error)),
        }
    }
    watch(&mut subjects, bench.settings.drift, progress);
    let mut rows = Vec::new();
    for subject in &subjects {
        let told = bench.told_over_true(subject.maker);
        for series in &subject.series {
            let (row, check) = judge(subject.maker, &subject.found, series, told);
            rows.extend(row);
            checks.push(check);
        }
    }
    Ok((Findings::Drift(rows), checks))
}

/// Reads all clocks, as long as it takes.
fn watch(subjects: &mut [Subject], duration: Duration, progress: &mut dyn Progress) {
    let schedule = Schedule::new(duration, subjects.len());
    let start = boot_ns();
    for step in 0..=schedule.steps() {
        let due = start + schedule.at(step).as_nanos() as u64;
        // Readings at this step may be late by a few ms: what counts is when
        // they were taken.
        while watch_edge_before(subjects, due, schedule.watchers()) {}
        sleep_until(due);
        let done = f64::from(step) / f64::from(schedule.steps());
        progress.step(&format!("{} machines are read", subjects.len()), done);
        for subject in subjects.iter_mut() {
            subject.look();
        }
        for (index, subject) in subjects.iter_mut().enumerate() {
            let turn = schedule.turn(index);
            if turn.contains(&step) {
                subject.look_at_pit(step == *turn.end());
            }
        }
    }
}

/// Has the machines that need it most watch the next edge of the second, if
/// it comes before `due` or little after.
fn watch_edge_before(subjects: &mut [Subject], due: u64, watchers: usize) -> bool {
    let earliest = host_clock::read();
    let past = earliest.real.0.0 % NANOS_PER_SECOND;
    let mut edge = earliest.boot.0 + (NANOS_PER_SECOND - past);
    if edge < earliest.boot.0 + EDGE_AHEAD_MIN.as_nanos() as u64 {
        edge += NANOS_PER_SECOND;
    }
    let mut watching: Vec<&mut Subject> =
        subjects.iter_mut().filter(|subject| subject.has_edges()).collect();
    if edge >= due + EDGE_FIRST.as_nanos() as u64 || watching.is_empty() {
        return false;
    }
    watching.sort_by_key(|subject| subject.edges_seen());
    watching.truncate(watchers);
    sleep_until(edge.saturating_sub(EDGE_AHEAD.as_nanos() as u64));
    for subject in &watching {
        subject.watch_edge();
    }
    for subject in watching {
        subject.take_edge();
    }
    true
}

fn bar(theory_ppm: f64) -> String {
    format!("within {TOLERANCE_PPM} ppm of {theory_ppm:+.1} ppm")
}

/// A clock's row, if it was read often enough, and how it was met.
pub(crate) fn judge(
    maker: Maker,
    guest: &guest::discovery::Found,
    series: &Series,
    told_over_true: f64,
) -> (Option<Drift>, Check) {
    let source = series.source;
    let theory_ppm = theory::drift_ppm(source, guest.frequency_from, told_over_true);
    let name = format!("{}: {}", maker.label(), source.name());
    let Some(measured) = Measured::of(&series.readings, resolution_ns(source)) else {
        let check = match &series.error {
            Some(error) => missed(name, bar(theory_ppm), error),
            None => {
                let found = format!("{} reading(s)", series.readings.len());
                let why = format!("{found}: two are needed, some time apart");
                Check { name, bar: bar(theory_ppm), found, verdict: Verdict::NotMeasured(why) }
            }
        };
        return (None, check);
    };
    let (drift_ppm, uncertainty_ppm) = (measured.drift_ppm(), measured.uncertainty_ppm());
    let check = Check {
        name,
        bar: bar(theory_ppm),
        found: format!("{drift_ppm:+.1} ppm, ± {uncertainty_ppm:.1} ppm"),
        verdict: verdict(drift_ppm - theory_ppm, uncertainty_ppm),
    };
    let row = Drift {
        backend: maker.backend(),
        provider: maker.provider().to_owned(),
        source: source.name().to_owned(),
        guest_tsc_hz: guest.tsc.0,
        host_s: measured.host_s(),
        guest_s: measured.guest_s(),
        per_300_s: counted_s(QUOTED_S, drift_ppm),
        drift_ppm,
        theory_ppm,
        uncertainty_ppm,
        track: track(series),
    };
    (Some(row), check)
}

/// Guest less host since the first reading: s, then ms.
fn track(series: &Series) -> Vec<(f64, f64)> {
    let Some(first) = series.readings.first() else { return Vec::new() };
    let points = series.readings.iter().map(|reading| {
        let host_ns = middle_ns(*reading) - middle_ns(*first);
        let guest_ns = reading.tsc.wrapping_sub(first.tsc) as f64;
        (host_ns / 1e9, (guest_ns - host_ns) / 1e6)
    });
    points.collect()
}
