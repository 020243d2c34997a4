//! Each experiment's own table.

use lab::results::{
    Agreement, Backend, Cost, Drift, Findings, Monotonic, Offset, Outcome, Restore, Update,
};

use crate::output::table::{Cell, Column, Table};
use instruments::figures::{count, three_digits, time};

/// What an experiment found; the checks are told apart from it.
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

/// Who made a clock: `kernel`, or the provider of ours.
pub(super) const fn maker(backend: Backend, provider: &str) -> &str {
    match backend {
        Backend::Kernel => "kernel",
        Backend::Own => provider,
    }
}

/// The same where the provider goes without saying.
pub(super) const fn side(backend: Backend) -> &'static str {
    match backend {
        Backend::Kernel => "kernel",
        Backend::Own => "ours",
    }
}

/// What the first column's words mean.
const MAKERS: &str = "Clock by kernel: KVM's own kvm-clock; by others: our provider of that name.";

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
            maker(row.backend, &row.provider).into(),
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
        "TSC: the frequency the guest was told, or measured itself. in 300 s: what the guest counts \
         in 5 minutes of the host. ±: what reading both clocks leaves open.",
    );
    table
}

/// As many digits as there is room for.
fn seconds(value: f64) -> Cell {
    let digits = match value {
        long if long >= 999.95 => 0,
        long if long >= 99.995 => 1,
        _ => 2,
    };
    Cell::figure(value, digits)
}

/// What would be shown as -0.00 is 0.
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
            side(row.backend).into(),
            row.vcpu.to_string().into(),
            cell(version),
            cell(time(row.step_ns as f64)),
            cell(flags),
        ]);
    }
    table.note(
        "version: 2 a write. step: the new page's time less the old one's, at the new page's TSC. \
         flags: 1 TSC_STABLE, 2 GUEST_STOPPED.",
    );
    let mut said: Vec<&str> = Vec::new();
    for row in rows {
        if let Some(why) = &row.not_caused
            && !said.contains(&why.as_str())
        {
            said.push(why);
            table.note(format!("–: {} ({}): {why}", row.event, side(row.backend)));
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
            maker(row.backend, &row.provider).into(),
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
        "{} rounds of {} readings, each with as many bare RDTSC before it; ratio: the least of \
         the one over the least of the other.",
        sizes(|row| row.rounds),
        sizes(|row| row.reads)
    ));
    table
}

fn monotonic(rows: &[Monotonic]) -> Table {
    let mut table = Table::new(
        "Order: all vCPUs read and publish in turn",
        [
            Column::names("clock by"),
            Column::words("setting"),
            Column::names("guest's\nclock"),
            Column::figures("reads", ""),
            Column::figures("after\nanother's", ""),
            Column::figures("went\nback", ""),
            Column::figures("by at\nmost", ""),
        ],
    );
    for row in rows {
        table.row([
            side(row.backend).into(),
            row.setting.as_str().into(),
            row.source.as_str().into(),
            count(row.reads).into(),
            count(row.meetings).into(),
            count(row.backward).into(),
            match row.backward {
                0 => Cell::none(),
                _ => time(row.worst_ns as f64).into(),
            },
        ]);
    }
    let vcpus = rows.iter().map(|row| row.vcpus).max().unwrap_or(0);
    table.note(format!("{vcpus} vCPUs."));
    table.note(
        "after another's: reads before which another vCPU had published; went back: showed less \
         than had been published before they began.",
    );
    table
}

fn offset(rows: &[Offset]) -> Table {
    let mut table = Table::new(
        "Offset: the guest's now less the host's",
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
            maker(row.backend, &row.provider).into(),
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
        "the host's now: by its own clock, CLOCK_BOOTTIME, which goes on from what the guest's \
         clock showed at the machine's start.",
    );
    table.note("±: what the best sample leaves open, either way.");
    table
}

fn restore(rows: &[Restore]) -> Table {
    let mut table = Table::new(
        "Restore: what a guest sees of having been away",
        [
            Column::names("clock by"),
            Column::names("policy"),
            Column::names("guest's clock"),
            Column::figures("away", "s"),
            Column::figures("seen", "s"),
            Column::figures("expected", "s"),
            Column::figures("apart", ""),
            Column::figures("GUEST_\nSTOPPED", ""),
        ],
    );
    for row in rows {
        let apart = row.seen_s - row.expected_s;
        table.row([
            side(row.backend).into(),
            row.policy.as_str().into(),
            row.source.as_str().into(),
            Cell::figure(row.away_s, 3),
            Cell::figure(row.seen_s, 3),
            Cell::figure(row.expected_s, 3),
            Cell::figure_as(time(apart * 1e9), apart * 1e9),
            row.guest_stopped.to_string().into(),
        ]);
    }
    table.note(
        "away: by the host's clock, from save to restore; seen: how far the guest's clock went on \
         over it. GUEST_STOPPED: how often the guest saw it.",
    );
    table
}

fn agreement(rows: &[Agreement]) -> Table {
    let mut table = Table::new(
        "Agreement: our page less the kernel's, for the same guest at the same TSC",
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
            figure(row.apart_ns.min),
            figure(row.apart_ns.median),
            figure(row.apart_ns.p99),
            figure(row.apart_ns.max),
            count(row.samples).into(),
        ]);
    }
    table
}
