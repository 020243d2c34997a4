//! Each experiment's own table.

use lab::results::{
    Agreement, Contention, Cost, Drift, Echo, Findings, Monotonic, Moved, Offset, Outcome, Restore,
    Stock, Ticks, Update,
};

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
        Findings::Ticks(rows) => Some(ticks(rows)),
        Findings::Locks(rows) => Some(locks(rows)),
        Findings::Network(rows) => Some(network(rows)),
        Findings::Agreement(rows) => Some(agreement(rows)),
        Findings::Linux(rows) => Some(stock(rows)),
        Findings::Conformance => None,
    }
}

/// The second table, of what was saved and restored elsewhere.
pub(super) fn moved(outcome: &Outcome) -> Option<Table> {
    let Findings::Linux(rows) = &outcome.findings else { return None };
    let of_row = |row: &Stock| {
        let by = row.backend.label(&row.provider).to_owned();
        row.moved.iter().map(move |moved| (by.clone(), moved.clone())).collect::<Vec<_>>()
    };
    let rows: Vec<(String, Moved)> = rows.iter().flat_map(of_row).collect();
    let worst = |moved: &Moved| {
        let errors = moved.clocks.iter().map(|clock| (clock.error_ns(), clock.bound_s * 1e9));
        errors.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
    };
    let seconds = |seconds: f64| Cell::figure(seconds, 3);
    let mut table = table(
        "Linux: saved, and restored in another process",
        &rows,
        [
            (Column::names("clock by"), &|row| row.0.as_str().into()),
            (Column::names("way"), &|row| row.1.way.as_str().into()),
            (Column::names("policy"), &|row| row.1.policy.as_str().into()),
            (Column::figures("told", "ppm"), &|row| row.1.told_ppm.to_string().into()),
            (Column::figures("away", "s"), &|row| seconds(row.1.away_s)),
            (Column::figures("passed", "s"), &|row| {
                row.1.clocks.first().map_or(Cell::none(), |clock| seconds(clock.passed_s))
            }),
            (Column::figures("error", ""), &|row| {
                worst(&row.1).map_or(Cell::none(), |worst| nanos(worst.0))
            }),
            (Column::figures("bound", ""), &|row| {
                worst(&row.1).map_or(Cell::none(), |worst| nanos(worst.1))
            }),
            (Column::figures("late", "s"), &|row| {
                let late = row.1.timers.iter().map(|timer| timer.late_s).reduce(f64::max);
                late.map_or(Cell::none(), seconds)
            }),
        ],
    );
    table.note(
        "passed: what its CLOCK_MONOTONIC did while it was away; error: of the clock that missed \
         its policy most; late: of the timers, the latest, by its own clock.",
    );
    Some(table)
}

/// What a column shows of a row.
type Show<'a, R> = &'a dyn Fn(&R) -> Cell;

/// A table of these rows, with what each column shows of one.
fn table<R, const N: usize>(title: &str, rows: &[R], columns: [(Column, Show<'_, R>); N]) -> Table {
    let shown = columns.each_ref().map(|column| column.1);
    let mut table = Table::new(title, columns.map(|column| column.0));
    for row in rows {
        table.row(shown.map(|cell| cell(row)));
    }
    table
}

/// What the first column means.
const CLOCK_BY: &str = "Clock by: kernel is KVM's kvm-clock; the others are Parachron's providers.";

fn drift(rows: &[Drift]) -> Table {
    let mut table = table(
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

fn nanos(ns: f64) -> Cell {
    Cell::figure_as(time(ns), ns)
}

fn worst(row: &Monotonic) -> Cell {
    if row.backward == 0 { Cell::none() } else { time(row.worst_ns as f64).into() }
}

fn updates(rows: &[Update]) -> Table {
    let shown = |row: &Update, words: String| {
        if row.not_caused.is_none() { words.into() } else { Cell::none() }
    };
    let change = |row: &Update, before: String, after: String| {
        shown(row, if before == after { before } else { format!("{before} → {after}") })
    };
    let version = |row: &Update| change(row, row.version.0.to_string(), row.version.1.to_string());
    let flags = |row: &Update| change(row, row.flags.0.to_string(), row.flags.1.to_string());
    let mut table = table(
        "Updates: what each event does to the clock page",
        rows,
        [
            (Column::words("event"), &|row| row.event.as_str().into()),
            (Column::names("clock by"), &|row| row.backend.name().into()),
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
            table.note(format!("–: {} ({}): {why}", row.event, row.backend.name()));
        }
    }
    table
}

fn cost(rows: &[Cost]) -> Table {
    let figure = |value: f64| Cell::figure_as(three_digits(value), value);
    let mut table = table(
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
    let sizes = |pick: fn(&Cost) -> u64| {
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

fn monotonic(rows: &[Monotonic]) -> Table {
    let mut table = table(
        "Monotonic: all vCPUs read and publish in turn",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.name().into()),
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

fn offset(rows: &[Offset]) -> Table {
    let mut table = table(
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

fn restore(rows: &[Restore]) -> Table {
    let mut table = table(
        "Restore: what a guest sees of being saved and restored",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.name().into()),
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

fn ticks(rows: &[Ticks]) -> Table {
    let mut table = table(
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
        "owed: ticks that came due by the guest's TSC. guest behind: what one that counts ticks \
         has lost. Limits of catch up: twice the rate, 1 000 ticks.",
    );
    table
}

fn locks(rows: &[Contention]) -> Table {
    let share = |value: f64| Cell::figure_as(three_digits(value), value);
    let rate = |value: f64| Cell::figure_as(count(value as u64), value);
    let micros = |ns: Option<f64>| ns.map_or_else(Cell::none, |ns| share(ns / 1e3));
    let mut table = table(
        "Locks: all vCPUs take one lock in turn",
        rows,
        [
            (Column::names("wait"), &|row| row.lock.as_str().into()),
            (Column::names("vCPU\n/CPU"), &|row| format!("{}/{}", row.vcpus, row.cpus).into()),
            (Column::figures("held", "µs"), &|row| share(row.hold_ns as f64 / 1e3)),
            (Column::figures("takes\n/s", ""), &|row| rate(row.takes_per_s)),
            (Column::figures("hand-\novers/s", ""), &|row| rate(row.handovers_per_s)),
            (Column::figures("p50", "µs"), &|row| micros(row.handover_ns.map(|s| s.median))),
            (Column::figures("p99", "µs"), &|row| micros(row.handover_ns.map(|s| s.p99))),
            (Column::figures("halts\n/take", ""), &|row| share(row.halts_per_take)),
            (Column::figures("kicks\n/take", ""), &|row| share(row.kicks_per_take)),
            (Column::figures("spins\n/take", ""), &|row| share(row.spins_per_take)),
            (Column::figures("fair", ""), &|row| share(row.fairness)),
        ],
    );
    let exit = rows.iter().map(|row| row.exit_ns).fold(0.0, f64::max);
    table.note(
        "wait: spin, yield and halt (paravirtual: until kicked) in a queue, unfair without one. \
         p50, p99: from one vCPU's freeing the lock to the next one's having it. halts: or \
         yields. fair: takes of the vCPU that got the least, over an equal share.",
    );
    table.note(format!("An exit takes {} here; a halt, a yield, a kick are one each.", time(exit)));
    let had = |row: &Contention| row.cpus_had / row.cpus.min(row.vcpus) as f64;
    let share = rows.iter().filter(|row| row.lock == "spin").map(had).fold(1.0, f64::min);
    if share < 0.9 {
        table.note(format!(
            "This host was busy: vCPUs that spin had only {:.0} % of its CPUs in some rows, and \
             take turns there as if they were more.",
            share * 100.0
        ));
    }
    table
}

fn network(rows: &[Echo]) -> Table {
    let figure = |value: f64| Cell::figure_as(three_digits(value), value);
    let counted = |value: Option<f64>| value.map_or_else(Cell::none, figure);
    let micros = |ns: f64| figure(ns / 1e3);
    let mut table = table(
        "Network: an echo request and its reply, and what the two take of each kind",
        rows,
        [
            (Column::names("guest and host"), &|row| row.mode.as_str().into()),
            (Column::figures("noti-\nfies", ""), &|row| figure(row.notifications)),
            (Column::figures("inter-\nrupts", ""), &|row| figure(row.interrupts)),
            (Column::figures("waits", ""), &|row| figure(row.waits)),
            (Column::figures("exits", ""), &|row| counted(row.exits)),
            (Column::figures("emu-\nlated", ""), &|row| counted(row.emulated)),
            (Column::figures("p50", "µs"), &|row| micros(row.round_trip_ns.median)),
            (Column::figures("p90", "µs"), &|row| micros(row.p90_ns)),
            (Column::figures("/plain", ""), &|row| counted(row.p90_over_plain)),
        ],
    );
    table.note(
        "notifies: writes to the card's register. interrupts: each with one end of interrupt. \
         waits: HLT, RDMSR or hypercalls of a guest that waits. exits, emulated: all exits, and \
         the instructions it emulated, by KVM's own count. /plain: p90 over that of plain, the \
         median of the rounds in which others left both their CPU. Times are this machine's: \
         compare them within this table.",
    );
    if let Some(row) = rows.first() {
        table.note(format!(
            "The other side replies after {}. An exit to the process takes {} here. {} frames are \
             copied a packet, {} bytes.",
            time(row.delay_ns as f64),
            time(row.exit_ns),
            three_digits(row.copies),
            three_digits(row.bytes),
        ));
    }
    table
}

fn agreement(rows: &[Agreement]) -> Table {
    table(
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

fn stock(rows: &[Stock]) -> Table {
    let mut table = table(
        "Linux: what a stock kernel makes of each provider",
        rows,
        [
            (Column::names("clock by"), &|row| row.backend.label(&row.provider).into()),
            (Column::names("kernel"), &|row| row.kernel.as_str().into()),
            (Column::figures("vCPUs", ""), &|row| row.vcpus.to_string().into()),
            (Column::names("clock source"), &|row| row.clocksource.as_str().into()),
            (Column::figures("offset", ""), &|row| row.offset_ns.map_or(Cell::none(), nanos)),
            (Column::figures("±", ""), &|row| nanos(row.bound_ns)),
            (Column::figures("rate", "ppm"), &|row| row.rate_ppm.map_or(Cell::none(), ppm)),
            (Column::figures("VMClock", ""), &|row| {
                row.vmclock_offset_ns.map_or(Cell::none(), nanos)
            }),
            (Column::figures("VMClock ±", ""), &|row| {
                row.vmclock_bound_ns.map_or(Cell::none(), nanos)
            }),
            (Column::figures("took", "s"), &|row| Cell::figure(row.took_s, 1)),
        ],
    );
    table.note(CLOCK_BY);
    table.note(
        "offset: the guest's time of day less the host's; by its real-time clock, to a second, \
         where no page tells it. rate: its CLOCK_MONOTONIC_RAW against the host's. VMClock: Linux's \
         PTP clock of it less the host's time, with --vmclock.",
    );
    table
}
