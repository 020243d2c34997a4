//! Each experiment's own table.

use lab::results::{Agreement, Cost, Drift, Findings, Monotonic, Offset, Outcome, Restore, Update};

use crate::output::table::{Cell, Column, Table};
use instruments::figures::{count, three_digits, time};

/// An experiment's rows; conformance has checks only.
pub(super) fn of(outcome: &Outcome) -> Option<Table> {
    match &outcome.findings {
        Findings::Drift(rows) => Some(drift(rows)),
        Findings::Updates(rows) => Some(updates(rows)),
        Findings::Cost(rows) => Some(cost(rows)),
        Findings::Monotonic(rows) => Some(monotonic(rows)),
        Findings::Offset(rows) => Some(offset(rows)),
        Findings::Restore(rows) => Some(restore(rows)),
        Findings::Agreement(rows) => Some(agreement(rows)),
        Findings::Conformance => None,
    }
}

/// What the first column means.
const MAKERS: &str = "Clock by: kernel is KVM's kvm-clock; the others are Parachron's providers.";

fn drift(rows: &[Drift]) -> Table {
    let mut table = Table::new(
        "Drift: guest time against host time",
        [
            Column::names("clock by"),
            Column::names("guest's clock"),
            Column::figures("TSC", "MHz"),
            Column::figures("host", "s"),
            Column::figures("guest", "s"),
            Column::figures("in 300 s", "s"),
            Column::figures("drift", "ppm"),
            Column::figures("theory", "ppm"),
            Column::figures("±", "ppm"),
        ],
    );
    for row in rows {
        table.row([
            row.backend.maker(&row.provider).into(),
            row.source.as_str().into(),
            Cell::figure(row.guest_tsc_hz as f64 / 1e6, 1),
            seconds(row.host_s),
            seconds(row.guest_s),
            Cell::figure(row.per_300_s, 2),
            ppm(row.drift_ppm),
            ppm(row.theory_ppm),
            ppm(row.uncertainty_ppm),
        ]);
    }
    table.note(MAKERS);
    table.note(
        "TSC: the frequency the guest uses, advertised or measured by itself. in 300 s: what the \
         guest counts in 5 minutes of the host. ±: the bound of reading both clocks.",
    );
    table
}

/// As many digits as fit.
fn seconds(value: f64) -> Cell {
    let digits = match value {
        long if long >= 999.95 => 0,
        long if long >= 99.995 => 1,
        _ => 2,
    };
    Cell::figure(value, digits)
}

/// 0 instead of -0.00.
fn ppm(value: f64) -> Cell {
    let shown = if value.abs() < 0.005 { "0".into() } else { three_digits(value) };
    Cell::figure_as(shown, value)
}

fn updates(rows: &[Update]) -> Table {
    let mut table = Table::new(
        "Updates: what each event does to the clock page",
        [
            Column::words("event"),
            Column::names("clock by"),
            Column::figures("vCPU", ""),
            Column::figures("version", ""),
            Column::figures("step", ""),
            Column::figures("flags", ""),
        ],
    );
    for row in rows {
        let change = |before: String, after: String| {
            if before == after { before } else { format!("{before} → {after}") }
        };
        let version = change(row.version.0.to_string(), row.version.1.to_string());
        let flags = change(row.flags.0.to_string(), row.flags.1.to_string());
        let caused = row.not_caused.is_none();
        let cell = |words: String| if caused { words.into() } else { Cell::none() };
        table.row([
            row.event.as_str().into(),
            row.backend.name().into(),
            row.vcpu.to_string().into(),
            cell(version),
            cell(time(row.step_ns as f64)),
            cell(flags),
        ]);
    }
    table.note(
        "version: +2 for each write. step: the new page's time minus the old page's, at the new \
         page's TSC. flags: 1 TSC_STABLE, 2 GUEST_STOPPED.",
    );
    let mut noted: Vec<&str> = Vec::new();
    for row in rows {
        if let Some(why) = &row.not_caused
            && !noted.contains(&why.as_str())
        {
            noted.push(why);
            table.note(format!("–: {} ({}): {why}", row.event, row.backend.name()));
        }
    }
    table
}

fn cost(rows: &[Cost]) -> Table {
    let mut table = Table::new(
        "Cost of a reading inside the guest",
        [
            Column::names("clock by"),
            Column::names("guest's clock"),
            Column::figures("least", "cycles"),
            Column::figures("median", "cycles"),
            Column::figures("p99", "cycles"),
            Column::figures("least", "ns"),
            Column::figures("RDTSC", "cycles"),
            Column::figures("ratio", ""),
        ],
    );
    let figure = |value: f64| Cell::figure_as(three_digits(value), value);
    for row in rows {
        table.row([
            row.backend.maker(&row.provider).into(),
            row.source.as_str().into(),
            figure(row.cycles.min),
            figure(row.cycles.median),
            figure(row.cycles.p99),
            figure(row.least_ns),
            figure(row.rdtsc_cycles.min),
            figure(row.ratio),
        ]);
    }
    let sizes = |pick: fn(&Cost) -> u64| {
        let least = rows.iter().map(pick).min().unwrap_or(0);
        let most = rows.iter().map(pick).max().unwrap_or(0);
        if least == most { count(most) } else { format!("{} to {}", count(least), count(most)) }
    };
    table.note(MAKERS);
    table.note(format!(
        "{} rounds of {} readings, each after a round of as many bare RDTSC; ratio: least of the \
         clock over least of RDTSC.",
        sizes(|row| row.rounds),
        sizes(|row| row.reads)
    ));
    table
}

fn monotonic(rows: &[Monotonic]) -> Table {
    let mut table = Table::new(
        "Monotonic: all vCPUs read and publish in turn",
        [
            Column::names("clock by"),
            Column::words("setting"),
            Column::names("guest's\nclock"),
            Column::figures("reads", ""),
            Column::figures("inter-\nleaved", ""),
            Column::figures("back-\nward", ""),
            Column::figures("worst", ""),
        ],
    );
    for row in rows {
        table.row([
            row.backend.name().into(),
            row.setting.as_str().into(),
            row.source.as_str().into(),
            count(row.reads).into(),
            count(row.interleaved).into(),
            count(row.backward).into(),
            if row.backward == 0 { Cell::none() } else { time(row.worst_ns as f64).into() },
        ]);
    }
    let vcpus = rows.iter().map(|row| row.vcpus).max().unwrap_or(0);
    table.note(format!("{vcpus} vCPUs."));
    table.note(
        "interleaved: reads directly after another vCPU's. backward: reads below a time that was \
         published before they began.",
    );
    table
}

fn offset(rows: &[Offset]) -> Table {
    let mut table = Table::new(
        "Offset: the guest's clock minus the host's",
        [
            Column::names("clock by"),
            Column::names("guest's clock"),
            Column::figures("min", ""),
            Column::figures("median", ""),
            Column::figures("p99", ""),
            Column::figures("±", ""),
            Column::figures("samples", ""),
        ],
    );
    for row in rows {
        let figure = |ns: f64| Cell::figure_as(time(ns), ns);
        table.row([
            row.backend.maker(&row.provider).into(),
            row.source.as_str().into(),
            figure(row.offset_ns.min),
            figure(row.offset_ns.median),
            figure(row.offset_ns.p99),
            figure(row.bound_ns),
            count(row.samples).into(),
        ]);
    }
    table.note(MAKERS);
    table.note(
        "Host: CLOCK_BOOTTIME, plus its difference from the guest's clock at the machine's start.",
    );
    table.note("±: the bound of the best sample.");
    table
}

fn restore(rows: &[Restore]) -> Table {
    let mut table = Table::new(
        "Restore: what a guest sees of being saved and restored",
        [
            Column::names("clock by"),
            Column::names("policy"),
            Column::names("guest's clock"),
            Column::figures("down", "s"),
            Column::figures("seen", "s"),
            Column::figures("expected", "s"),
            Column::figures("error", ""),
            Column::figures("GUEST_\nSTOPPED", ""),
        ],
    );
    for row in rows {
        let error_ns = row.error_s() * 1e9;
        table.row([
            row.backend.name().into(),
            row.policy.as_str().into(),
            row.source.as_str().into(),
            Cell::figure(row.downtime_s, 3),
            Cell::figure(row.seen_s, 3),
            Cell::figure(row.expected_s, 3),
            Cell::figure_as(time(error_ns), error_ns),
            row.guest_stopped.to_string().into(),
        ]);
    }
    table.note(
        "down: from save to restore by the host's clock. seen: how far the guest's clock advanced. \
         GUEST_STOPPED: how often the guest saw it.",
    );
    table
}

fn agreement(rows: &[Agreement]) -> Table {
    let mut table = Table::new(
        "Agreement: Parachron's page minus KVM's, for one guest at the same TSC",
        [
            Column::names("page"),
            Column::figures("over", "s"),
            Column::figures("min", ""),
            Column::figures("median", ""),
            Column::figures("p99", ""),
            Column::figures("max", ""),
            Column::figures("samples", ""),
        ],
    );
    for row in rows {
        let figure = |ns: f64| Cell::figure_as(time(ns), ns);
        table.row([
            row.page.as_str().into(),
            Cell::figure(row.seconds, 1),
            figure(row.difference_ns.min),
            figure(row.difference_ns.median),
            figure(row.difference_ns.p99),
            figure(row.difference_ns.max),
            count(row.samples).into(),
        ]);
    }
    table
}
