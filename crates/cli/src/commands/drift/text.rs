//! The result for people.

use std::time::Duration;

use disruptions::text::span;
use inspect::comparison::{ClockName, PairReport, ReferenceReport};
use instruments::drift::{Drift, Frequency};

use super::report::DriftReport;
use super::{answer, verdicts};
use crate::output::table::{Cell, Column, ReportTable, width, wrap};
use crate::output::{number_of, printable};
use instruments::figures::{count, signed, time};

/// The answer, the figures and what they rest on; with `verbose` also how steady each clock
/// is and which comparisons were kept.
pub(super) fn render(report: &DriftReport, verbose: bool) -> String {
    let mut references: Vec<&str> = report.pairs.iter().map(|p| p.reference.as_str()).collect();
    references.dedup();
    references.sort_unstable();
    references.dedup();
    let mut tables: Vec<ReportTable> =
        references.into_iter().map(|reference| figures(report, reference)).collect();
    tables.push(moves(report));
    if verbose {
        tables.push(stability(report));
    }
    tables.retain(|table| !table.is_empty());
    let mut parts = vec![wrap(&printable(&answer::sentence(report)), width()) + "\n"];
    parts.extend(tables.iter().map(|table| table.text()));
    parts.push(sentences(report, verbose));
    parts.join("\n")
}

/// A row a clock.
fn figures(report: &DriftReport, reference: &str) -> ReportTable {
    let pairs = || report.pairs.iter().filter(|pair| pair.reference == reference);
    let longest_s = pairs().map(|pair| pair.drift.span_s).fold(0.0, f64::max);
    let frequency = |pair: &PairReport| pair.drift.frequency;
    let seconds = |value: Option<f64>| {
        value.map_or(Cell::none(), |value| Cell::from(signed(value * 1e9, time)))
    };
    let mut table = ReportTable::with_rows(
        format!("Drift against {}, over {}", printable(reference), span(longest_s)),
        pairs(),
        [
            (Column::names("clock"), &|pair| pair.clock.name().into()),
            (Column::figures("frequency", "ppm"), &|pair| {
                frequency(pair).map_or(Cell::none(), |frequency| {
                    Cell::from(with_sign(frequency.ppm, digits(&pair.drift)))
                })
            }),
            (Column::figures("±", "ppm"), &|pair| {
                let bound = frequency(pair).as_ref().and_then(bound_ppm);
                bound.map_or(Cell::none(), |ppm| Cell::figure(ppm, digits(&pair.drift)))
            }),
            (Column::figures("a day", ""), &|pair| {
                seconds(frequency(pair).map(|frequency| frequency.per_day_s))
            }),
            (Column::figures("in 300 s", ""), &|pair| {
                seconds(frequency(pair).map(|frequency| frequency.in_300_s))
            }),
            (Column::figures("offset", ""), &offset),
            (Column::figures("±", ""), &|pair| {
                let bound_ns = pair.drift.offset.bound_ns;
                Cell::from(time(bound_ns))
            }),
        ],
    );
    if pairs().any(|pair| !pair.offset_is_error) {
        table.note(
            "*: change since the measurement began; the clocks count from different moments.",
        );
    }
    table.note(
        "+: fast or ahead. ±: the 95 % confidence interval for the frequency, the bound for the \
         offset. –: too few comparisons.",
    );
    table
}

/// The offset of a clock that counts from boot means nothing; its change does.
fn offset(pair: &PairReport) -> Cell {
    let offset = &pair.drift.offset;
    let (ns, star) = if pair.offset_is_error { (offset.ns, "") } else { (offset.moved_ns, "*") };
    Cell::from(format!("{}{star}", signed(ns, time)))
}

/// The wider side of the interval: Sen's need not be even.
fn bound_ppm(frequency: &Frequency) -> Option<f64> {
    let (low, high) = frequency.interval_ppm?;
    Some((high - frequency.ppm).max(frequency.ppm - low))
}

/// As many digits as the interval supports.
fn digits(drift: &Drift) -> usize {
    let interval = drift.frequency.and_then(|frequency| frequency.interval_ppm);
    let width = interval.map_or(1.0, |(low, high)| high - low);
    // Two figures of the interval, and never an interval that looks like none.
    match width {
        width if width < 0.5 => 3.max((1.0 - width.max(1e-9).log10()).ceil() as usize),
        _ => 2,
    }
}

/// Steps and changes of frequency.
fn moves(report: &DriftReport) -> ReportTable {
    let mut rows: Vec<(f64, &PairReport, String)> = Vec::new();
    for pair in &report.pairs {
        for step in &pair.drift.steps {
            let what = format!("step {} ± {}", signed(step.ns, time), time(step.bound_ns));
            rows.push((step.at_s, pair, what));
        }
        for change in &pair.drift.rate_changes {
            let (before, after) = (with_sign(change.before_ppm, 2), with_sign(change.after_ppm, 2));
            rows.push((change.at_s, pair, format!("frequency {before} → {after} ppm")));
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    ReportTable::with_rows(
        "Steps and changes of frequency",
        &rows,
        [
            (Column::names("clock"), &|row| row.1.clock.name().into()),
            (Column::words("against"), &|row| row.1.reference.as_str().into()),
            (Column::figures("at", "s"), &|row| Cell::figure(row.0, 1)),
            (Column::words("what"), &|row| row.2.as_str().into()),
        ],
    )
}

/// Allan deviations: a column a pair would not fit, so a row each.
fn stability(report: &DriftReport) -> ReportTable {
    let points = |pair: &PairReport| {
        let points = pair.drift.allan.iter().map(|point| {
            let tau = time(point.tau_s * 1e9).replace(' ', "\u{a0}");
            format!("{tau}:\u{a0}{}", significant(point.deviation * 1e6))
        });
        points.collect::<Vec<_>>().join(", ").into()
    };
    let mut table = ReportTable::with_rows(
        "Stability: overlapping Allan deviation by tau, ppm",
        report.pairs.iter().filter(|pair| !pair.drift.allan.is_empty()),
        [
            (Column::names("clock"), &|pair| pair.clock.name().into()),
            (Column::words("against"), &|pair| pair.reference.as_str().into()),
            (Column::words("tau: deviation"), &points),
        ],
    );
    table.note("At short tau this is the measurement's own noise.");
    table
}

/// What the figures are based on, and the verdicts.
fn sentences(report: &DriftReport, verbose: bool) -> String {
    let mut lines: Vec<String> =
        report.references.iter().map(|one| reference(one, report, verbose)).collect();
    lines.extend(
        report
            .tsc_frequency
            .map(|tsc| format!("tsc: converted at {} Hz, from {}.", tsc.hz, tsc.from.name())),
    );
    lines.extend(report.notes.iter().chain(&report.disturbed).cloned());
    let missing = report.not_measured.iter();
    lines.extend(missing.map(|missing| format!("{} not measured: {}", missing.what, missing.why)));
    lines.extend(verdicts::sentences(report));
    lines.iter().map(|line| wrap(&printable(line), width()) + "\n").collect()
}

fn reference(reference: &ReferenceReport, report: &DriftReport, verbose: bool) -> String {
    let mut line = format!(
        "{}: {} of {}",
        reference.name,
        count(reference.made),
        number_of(reference.tried, "comparison")
    );
    for failure in &reference.failures {
        line.push_str(&format!("; {} × {}", failure.times, failure.what));
    }
    let status = &reference.status;
    if let Some(stratum) = status.stratum {
        line.push_str(&format!("; stratum {stratum}"));
    }
    match status.root_distance_ns {
        Some(0) => line.push_str("; root distance 0"),
        Some(distance) => {
            line.push_str(&format!("; root distance {}", time(distance as f64)));
        }
        None => {}
    }
    match status.leap {
        Some(1) => line.push_str("; announces an inserted leap second"),
        Some(2) => line.push_str("; announces a deleted leap second"),
        _ => {}
    }
    if let Some(method) = &status.method {
        line.push_str(&format!("; {method} offsets"));
    }
    if let Some(driver) = &status.driver {
        line.push_str(&format!("; {driver}"));
    }
    if let Some(ahead_s) = status.ahead_of_utc_s.filter(|ahead_s| *ahead_s != 0) {
        line.push_str(&format!("; counts TAI: {ahead_s} s subtracted"));
    }
    match status.leap_smear.as_deref() {
        Some("certain") => {
            line.push_str("; spreads leap seconds, so up to 0.5 s off around a leap second")
        }
        Some(_) => line.push_str(
            "; may spread leap seconds, and would then be up to 0.5 s off around a leap second",
        ),
        None => {}
    }
    if let Some(chrony) = &status.chrony {
        line.push_str(&format!(
            "; chronyd reports: system clock {} ppm before correction, ± {} ppm",
            with_sign(chrony.frequency_ppm, 3),
            chrony.skew_ppm
        ));
    }
    // The delay is the network's: much the same for all clocks.
    if verbose {
        let pair = report.pairs.iter().find(|pair| pair.reference == reference.name);
        line.extend(pair.map(|pair| format!("; {}", filtered(pair))));
    }
    if let Some(why) = &reference.stopped {
        line.push_str(&format!("; no longer queried: {why}"));
    }
    line + "."
}

/// What the filter kept, and what it dropped.
fn filtered(pair: &PairReport) -> String {
    let drift = &pair.drift;
    let (least, median) = (time(drift.least_delay_ns), time(drift.median_delay_ns));
    let (readings, clock) = (number_of(drift.readings as u64, "comparison"), pair.clock);
    let delay = format!("delay: least {least}, median {median}");
    let wrong = match drift.outliers {
        0 => String::new(),
        1 => ", 1 as an outlier, which contradicts those before and after it".into(),
        some => format!(
            ", {} as outliers, which contradict those before and after them",
            count(some as u64)
        ),
    };
    match drift.readings - drift.kept {
        0 => format!("{delay}; used all {readings} of {clock}"),
        dropped => format!(
            "{delay}; of {readings} of {clock} used the {} with the shortest delay in one \
             direction, dropped {} as delayed{wrong}",
            count(drift.kept as u64),
            count(dropped.saturating_sub(drift.outliers) as u64),
        ),
    }
}

/// `+50.01 ± 0.12 ppm`, or a dash.
pub(super) fn frequency(drift: &Drift) -> String {
    let Some(frequency) = drift.frequency else { return "–".into() };
    let digits = digits(drift);
    let bound = bound_ppm(&frequency).map(|bound| format!(" ± {bound:.digits$}"));
    format!("{}{} ppm", with_sign(frequency.ppm, digits), bound.unwrap_or_default())
}

/// One line while measuring.
pub(super) fn live(clock: ClockName, reference: &str, drift: &Drift, elapsed: Duration) -> String {
    let figure = frequency(drift);
    let steps = drift.steps.len() as u64;
    let steps = if steps > 0 { ", ".to_owned() + &number_of(steps, "step") } else { String::new() };
    printable(&format!(
        "{:>9} {clock:<9} {figure} against {reference}, {}{steps}",
        span(elapsed.as_secs_f64()),
        number_of(drift.readings as u64, "comparison"),
    ))
}

/// The bound of a frequency, and as many digits as it supports.
pub(super) fn frequency_bound(drift: &Drift) -> (Option<f64>, usize) {
    (drift.frequency.as_ref().and_then(bound_ppm), digits(drift))
}

/// With its sign, and `digits` after the point.
pub(super) fn with_sign(value: f64, digits: usize) -> String {
    signed(value, |size| format!("{size:.digits$}"))
}

/// Three digits that count, down to any size.
fn significant(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value.abs() < 0.001 => format!("{value:.1e}"),
        value if value.abs() < 1.0 => format!("{value:.4}"),
        value => instruments::figures::three_digits(value),
    }
}

#[cfg(test)]
mod tests;
