//! Tables of whole guests: their locks, their network, stock kernels.

use lab::results::{Contention, Echo, ExperimentOutcome, Findings, MovedRow, Stock};

use instruments::figures::{count, three_digits, time};

use super::cells::{CLOCK_BY, nanos, ppm};
use crate::output::table::{Cell, Column, ReportTable};

/// The second table, of what was saved and restored elsewhere.
pub(in super::super) fn moved(outcome: &ExperimentOutcome) -> Option<ReportTable> {
    let Findings::Linux(rows) = &outcome.findings else { return None };
    let of_row = |row: &Stock| {
        let by = row.backend.label(&row.provider).to_owned();
        row.moved.iter().map(move |moved| (by.clone(), moved.clone())).collect::<Vec<_>>()
    };
    let rows: Vec<(String, MovedRow)> = rows.iter().flat_map(of_row).collect();
    let worst = |moved: &MovedRow| {
        let errors = moved.clocks.iter().map(|clock| (clock.error_ns(), clock.bound_s * 1e9));
        errors.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
    };
    let seconds = |seconds: f64| Cell::figure(seconds, 3);
    let mut table = ReportTable::with_rows(
        "Linux: saved, and restored in another process",
        &rows,
        [
            (Column::names("clock by"), &|row| row.0.as_str().into()),
            (Column::names("way"), &|row| row.1.way.as_str().into()),
            (Column::names("policy"), &|row| row.1.policy.as_str().into()),
            (Column::figures("stated", "ppm"), &|row| row.1.told_ppm.to_string().into()),
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
        "passed: how far its CLOCK_MONOTONIC advanced while it was away. error: of the clock that \
         deviates most from its policy. late: the latest of the timers, by the guest's clock.",
    );
    Some(table)
}

pub(super) fn locks(rows: &[Contention]) -> ReportTable {
    let share = |value: f64| Cell::from(three_digits(value));
    let rate = |value: f64| Cell::from(count(value as u64));
    let micros = |ns: Option<f64>| ns.map_or_else(Cell::none, |ns| share(ns / 1e3));
    let mut table = ReportTable::with_rows(
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
         p50, p99: time from one vCPU releasing the lock to the next vCPU holding it. halts: halts \
         or yields. fair: acquisitions by the vCPU that got the fewest, divided by an equal share.",
    );
    table.note(format!(
        "An exit takes {} here; a halt, a yield or a kick costs one exit.",
        time(exit)
    ));
    let had = |row: &Contention| row.cpus_had / row.cpus.min(row.vcpus) as f64;
    let share = rows.iter().filter(|row| row.lock == "spin").map(had).fold(1.0, f64::min);
    if share < 0.9 {
        table.note(format!(
            "This host was busy: in some rows the spinning vCPUs got only {:.0} % of its CPUs, \
             and took turns as if there were more of them.",
            share * 100.0
        ));
    }
    table
}

pub(super) fn network(rows: &[Echo]) -> ReportTable {
    let figure = |value: f64| Cell::from(three_digits(value));
    let counted = |value: Option<f64>| value.map_or_else(Cell::none, figure);
    let micros = |ns: f64| figure(ns / 1e3);
    let mut table = ReportTable::with_rows(
        "Network: what an echo request and its reply cost",
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
        "notifies: writes to the card's register. interrupts: interrupts of \
         the guest. waits: HLT, RDMSR or hypercalls of a guest that waits. exits, emulated: KVM's \
         own counts of exits and of emulated instructions. /plain: p90 divided by the p90 of \
         plain; median of the rounds in which guest and card both had a CPU. Times depend on the \
         machine: compare them only within this table.",
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

pub(super) fn stock(rows: &[Stock]) -> ReportTable {
    let mut table = ReportTable::with_rows(
        "Linux: a stock kernel on each provider",
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
        "offset: the guest's time of day minus the host's; read from its real-time clock, to 1 s, \
         where no page shows it. rate: its CLOCK_MONOTONIC_RAW against the host's. VMClock: the \
         guest's PTP clock of the VMClock minus the host's time, with --vmclock.",
    );
    table
}
