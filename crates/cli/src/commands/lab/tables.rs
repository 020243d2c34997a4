//! Each experiment's own table.

mod cells;
mod guests;

use lab::results::{
    Agreement, CostRow, DriftRow, ExperimentOutcome, Findings, Monotonic, OffsetRow, Restore,
    TicksRow, Update,
};

use crate::output::table::{Cell, Column, ReportTable};
use instruments::figures::{count, three_digits, time};

use cells::{CLOCK_BY, nanos, ppm, seconds};
pub(super) use guests::moved;
use guests::{locks, network, stock};

/// The provider of ours in experiments with one.
const OF_OURS: &str = "kvm";

/// An experiment's rows; conformance has checks only.
pub(super) fn figures(outcome: &ExperimentOutcome) -> Option<ReportTable> {
    match &outcome.findings {
        Findings::Drift(rows) => Some(drift(rows)),
        Findings::Updates(rows) => Some(updates(rows)),
        Findings::Cost(rows) => Some(cost(rows)),
        Findings::Monotonic(rows) => Some(monotonic(rows)),
        Findings::Offset(rows) => Some(offset(rows)),
        Findings::Restore(rows) => Some(restore(rows)),
        Findings::Ticks(rows) => Some(ticks(rows)),
        Findings::Locks(rows) => Some(locks(rows)),
        Findings::Network(rows) => Some(network(rows)),
        Findings::Agreement(rows) => Some(agreement(rows)),
        Findings::Linux(rows) => Some(stock(rows)),
        Findings::Conformance => None,
    }
}

fn drift(rows: &[DriftRow]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Drift: guest time against host time",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(&row.provider).into()),
            (Column::names("guest's clock"), &|row| row.source.as_str().into()),
            (Column::figures("TSC", "MHz"), &|row| Cell::figure(row.guest_tsc_hz as f64 / 1e6, 1)),
            (Column::figures("host", "s"), &|row| seconds(row.host_s)),
            (Column::figures("guest", "s"), &|row| seconds(row.guest_s)),
            (Column::figures("in 300 s", "s"), &|row| Cell::figure(row.per_300_s, 2)),
            (Column::figures("drift", "ppm"), &|row| ppm(row.drift_ppm)),
            (Column::figures("theory", "ppm"), &|row| ppm(row.theory_ppm)),
            (Column::figures("±", "ppm"), &|row| ppm(row.uncertainty_ppm)),
        ],
    );
    table.note(CLOCK_BY);
    table.note(
        "TSC: the frequency the guest uses, advertised or measured by the guest. in 300 s: what the \
         guest counts in 5 minutes of the host. ±: the bound of reading both clocks.",
    );
    table
}

fn worst(row: &Monotonic) -> Cell {
    if row.backward == 0 { Cell::none() } else { time(row.worst_ns as f64).into() }
}

fn updates(rows: &[Update]) -> ReportTable {
    let shown = |row: &Update, words: String| {
        if row.not_caused.is_none() { words.into() } else { Cell::none() }
    };
    let change = |row: &Update, before: String, after: String| {
        shown(row, if before == after { before } else { format!("{before} → {after}") })
    };
    let version = |row: &Update| change(row, row.version.0.to_string(), row.version.1.to_string());
    let flags = |row: &Update| change(row, row.flags.0.to_string(), row.flags.1.to_string());
    let mut table = ReportTable::with_rows(
        "Updates: what each event does to the clock page",
        rows,
        [
            (Column::words("event"), &|row| row.event.as_str().into()),
            (Column::names("clock by"), &|row| row.backend.label(OF_OURS).into()),
            (Column::figures("vCPU", ""), &|row| row.vcpu.to_string().into()),
            (Column::figures("version", ""), &version),
            (Column::figures("step", ""), &|row| shown(row, time(row.step_ns as f64))),
            (Column::figures("flags", ""), &flags),
        ],
    );
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
            table.note(format!("–: {} ({}): {why}", row.event, row.backend.label(OF_OURS)));
        }
    }
    table
}

fn cost(rows: &[CostRow]) -> ReportTable {
    let figure = |value: f64| Cell::from(three_digits(value));
    let mut table = ReportTable::with_rows(
        "Cost of a reading inside the guest",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(&row.provider).into()),
            (Column::names("guest's clock"), &|row| row.source.as_str().into()),
            (Column::figures("least", "cycles"), &|row| figure(row.cycles.min)),
            (Column::figures("median", "cycles"), &|row| figure(row.cycles.median)),
            (Column::figures("p99", "cycles"), &|row| figure(row.cycles.p99)),
            (Column::figures("least", "ns"), &|row| figure(row.least_ns)),
            (Column::figures("RDTSC", "cycles"), &|row| figure(row.rdtsc_cycles.min)),
            (Column::figures("ratio", ""), &|row| figure(row.ratio)),
        ],
    );
    let sizes = |pick: fn(&CostRow) -> u64| {
        let least = rows.iter().map(pick).min().unwrap_or(0);
        let most = rows.iter().map(pick).max().unwrap_or(0);
        if least == most { count(most) } else { format!("{} to {}", count(least), count(most)) }
    };
    table.note(CLOCK_BY);
    table.note(format!(
        "{} rounds of {} readings, each after a round of as many bare RDTSC; ratio: least of the \
         clock over least of RDTSC.",
        sizes(|row| row.rounds),
        sizes(|row| row.reads)
    ));
    table
}

fn monotonic(rows: &[Monotonic]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Monotonic: all vCPUs read and publish in turn",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(OF_OURS).into()),
            (Column::words("setting"), &|row| row.setting.as_str().into()),
            (Column::names("guest's\nclock"), &|row| row.source.as_str().into()),
            (Column::figures("reads", ""), &|row| count(row.reads).into()),
            (Column::figures("inter-\nleaved", ""), &|row| count(row.interleaved).into()),
            (Column::figures("back-\nward", ""), &|row| count(row.backward).into()),
            (Column::figures("worst", ""), &worst),
        ],
    );
    let vcpus = rows.iter().map(|row| row.vcpus).max().unwrap_or(0);
    table.note(format!("{vcpus} vCPUs."));
    table.note(
        "interleaved: reads directly after another vCPU's. backward: reads below a time that was \
         published before they began.",
    );
    table
}

fn offset(rows: &[OffsetRow]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Offset: the guest's clock minus the host's",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(&row.provider).into()),
            (Column::names("guest's clock"), &|row| row.source.as_str().into()),
            (Column::figures("min", ""), &|row| nanos(row.offset_ns.min)),
            (Column::figures("median", ""), &|row| nanos(row.offset_ns.median)),
            (Column::figures("p99", ""), &|row| nanos(row.offset_ns.p99)),
            (Column::figures("±", ""), &|row| nanos(row.bound_ns)),
            (Column::figures("samples", ""), &|row| count(row.samples).into()),
        ],
    );
    table.note(CLOCK_BY);
    table.note(
        "Host: CLOCK_BOOTTIME, plus its difference from the guest's clock at the machine's start.",
    );
    table.note("±: the bound of the best sample.");
    table
}

fn restore(rows: &[Restore]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Restore: what a guest notices after save and restore",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(OF_OURS).into()),
            (Column::names("policy"), &|row| row.policy.as_str().into()),
            (Column::names("guest's clock"), &|row| row.source.as_str().into()),
            (Column::figures("down", "s"), &|row| Cell::figure(row.downtime_s, 3)),
            (Column::figures("seen", "s"), &|row| Cell::figure(row.seen_s, 3)),
            (Column::figures("expected", "s"), &|row| Cell::figure(row.expected_s, 3)),
            (Column::figures("error", ""), &|row| nanos(row.error_s() * 1e9)),
            (Column::figures("GUEST_\nSTOPPED", ""), &|row| row.guest_stopped.to_string().into()),
        ],
    );
    table.note(
        "down: from save to restore by the host's clock. seen: how far the guest's clock advanced. \
         GUEST_STOPPED: how often the guest saw it.",
    );
    table
}

fn ticks(rows: &[TicksRow]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Ticks: a periodic timer whose vCPU was held",
        rows,
        [
            (Column::names("missed ticks"), &|row| row.policy.as_str().into()),
            (Column::figures("period", "ms"), &|row| Cell::figure(row.period_s * 1e3, 0)),
            (Column::figures("held", "s"), &|row| {
                let by = if row.simulated { " (simulated)" } else { "" };
                format!("{:.3}{by}", row.held_s).into()
            }),
            (Column::figures("owed", ""), &|row| count(row.owed).into()),
            (Column::figures("given", ""), &|row| count(row.given).into()),
            (Column::figures("longest\nwithout", ""), &|row| nanos(row.longest_s * 1e9)),
            (Column::figures("guest\nbehind", ""), &|row| nanos(row.behind_s * 1e9)),
        ],
    );
    table.note(
        "owed: ticks that came due by the guest's TSC. guest behind: the time that a guest which \
         counts ticks has lost. `catch up` runs at up to twice the rate, for up to 1 000 ticks.",
    );
    table
}

fn agreement(rows: &[Agreement]) -> ReportTable {
    ReportTable::with_rows(
        "Agreement: Parachron's page minus KVM's, for one guest at the same TSC",
        rows,
        [
            (Column::names("page"), &|row| row.page.as_str().into()),
            (Column::figures("over", "s"), &|row| Cell::figure(row.seconds, 1)),
            (Column::figures("min", ""), &|row| nanos(row.difference_ns.min)),
            (Column::figures("median", ""), &|row| nanos(row.difference_ns.median)),
            (Column::figures("p99", ""), &|row| nanos(row.difference_ns.p99)),
            (Column::figures("max", ""), &|row| nanos(row.difference_ns.max)),
            (Column::figures("samples", ""), &|row| count(row.samples).into()),
        ],
    )
}
