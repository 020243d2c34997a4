//! What a packet costs, by how guest and host wait for it: an echo request there, a known
//! delay, and its reply back.
//!
//! All ways take turns in one machine, round after round, so what else the host does
//! meets them alike: counts are exact, times are compared within a round alone. The vCPU
//! and the card's thread are bound to a CPU each.

mod tally;

use std::time::Duration;

use guest::network::{Flow, PINGS_MAX, PacketCount, Wait};
use guest::request::GuestRequest;
use pvclock::Hertz;
use tally::{Echo, NetworkTally, Turn};
use vmm::Machine;

use crate::bench::{LabBench, Provider, boot_guest, exit_ns};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable};
use crate::settings::{LabError, LabProgress};

/// How long the other side takes: less than any wake-up, so that those show.
const DELAY: Duration = Duration::from_micros(30);

/// CPUs that it takes: the guest's, and the card's.
const CPUS: usize = 2;

/// Exits a packet, beside the host's own interrupts, of a guest that makes none: setting the
/// card up takes one more or less each time.
const OTHER_EXITS_MAX: f64 = 0.01;
/// Notifications a packet, with event index.
const NOTIFICATIONS_MAX: f64 = 0.1;

/// About how long it takes.
pub(crate) const fn length(rounds: u64) -> Duration {
    // A turn: some 120 us a packet, and setting the card up twice.
    Duration::from_millis(rounds * MODES.len() as u64 * 60)
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    measure(bench, progress, &MODES)
}

fn measure(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
    modes: &[NetworkMode; MODES.len()],
) -> Result<ExperimentResult, LabError> {
    let mut settings = bench.machine(Provider::Kernel, 1);
    let allowed = linux::cpus::allowed().unwrap_or_default();
    settings.affinity = allowed.into_iter().take(CPUS).collect();
    settings.network = Some(DELAY);
    let machine = boot_guest(&settings)?;
    let exit_ns = exit_ns(&machine, bench.host_tsc)?;
    let mut tallies = MODES.map(|_| NetworkTally::default());
    let rounds = bench.settings.rounds;
    for round in 0..rounds {
        for turn in 0..modes.len() {
            let turn = (turn + round as usize) % modes.len();
            let done = round as f64 + turn as f64 / modes.len() as f64;
            progress.step(modes[turn].name, (done / rounds as f64).min(1.0));
            tallies[turn].add(take_turn(&machine, &modes[turn], bench.host_tsc)?);
        }
    }
    let plain = tallies[0].clone();
    let rows: Vec<_> = modes
        .iter()
        .zip(&tallies)
        .filter_map(|(mode, tally)| {
            let row = tally.row(&plain, bench.host_tsc)?;
            let (mode, in_flight) = (mode.name, mode.in_flight);
            Some(Echo { mode, in_flight, delay_ns: DELAY.as_nanos() as u64, exit_ns, ..row })
        })
        .collect();
    let checks = checks(&rows);
    Ok((table(&rows), checks))
}

fn table(rows: &[Echo]) -> ResultTable {
    use ColumnForm::{Name, Nanos, Significant};
    let columns = [
        ("mode", "guest and host", "", Name),
        ("notifications", "noti-\nfies", "", Significant),
        ("interrupts", "inter-\nrupts", "", Significant),
        ("waits", "waits", "", Significant),
        ("exits", "exits", "", Significant),
        ("emulated", "emu-\nlated", "", Significant),
        ("round_trip_ns.median", "p50", "", Nanos),
        ("p90_ns", "p90", "", Nanos),
        ("p90_over_plain", "/plain", "", Significant),
    ];
    ResultTable::new("Network: what an echo request and its reply cost", &columns, rows)
        .worst("p90_ns")
        .note(
            "A packet is a request with its reply, which the other side sends after 30 µs. \
             notifies: writes to the card's register. interrupts: interrupts of the guest. waits: \
             HLT, RDMSR or hypercalls of a guest that waits. exits, emulated: KVM's own counts of \
             exits and of emulated instructions. /plain: p90 divided by the p90 of plain; median \
             of the rounds in which guest and card both had a CPU. Times depend on the machine: \
             compare them only within this table.",
        )
}

/// All pings of a way, after one alone: what KVM counts of that is what setting the card
/// up takes.
fn take_turn(machine: &Machine, mode: &NetworkMode, tsc: Hertz) -> Result<Turn, LabError> {
    machine.set_halt_polling(mode.halt_polling_ns)?;
    machine.poll_network(mode.card_polls);
    let one = ping(machine, mode, 1)?;
    let waited_before = machine.run_delay(0)?;
    let all = ping(machine, mode, PINGS_MAX as u64)?;
    let waited = machine.run_delay(0)?.zip(waited_before);
    // Where the kernel does not tell, all rounds count.
    let waited_ns = waited.map_or(0.0, |(after, before)| after.0.saturating_sub(before.0) as f64);
    let took_ns = all.counted.cycles as f64 * 1e9 / tsc.0 as f64;
    Ok(Turn { waited: waited_ns / took_ns.max(1.0), ..all.without(&one) })
}

fn ping(machine: &Machine, mode: &NetworkMode, pings: u64) -> Result<Turn, LabError> {
    let NetworkMode { wait, event_index, in_flight, batch, .. } = *mode;
    let flow = Flow { wait, event_index, pings, in_flight, batch };
    let card = || machine.network().unwrap_or_default();
    let (kvm_before, card_before) = (machine.counts(0), card());
    let counted = PacketCount::decode(&machine.request(0, GuestRequest::Ping(flow))?);
    let (kvm_after, card_after) = (machine.counts(0), card());
    let mut cycles: Vec<u64> = machine.records(0)?.into_iter().flatten().collect();
    cycles.truncate(pings as usize);
    let kvm = |name: &str| {
        let [before, after] = [&kvm_before, &kvm_after].map(|counts| counts.as_ref()?.get(name));
        Some(after?.saturating_sub(*before?))
    };
    Ok(Turn {
        pings,
        counted,
        cycles,
        exits: kvm("exits"),
        host_interrupts: kvm("irq_exits"),
        emulated: kvm("insn_emulation"),
        copies: card_after.copies() - card_before.copies(),
        bytes: card_after.bytes - card_before.bytes,
        waited: 0.0,
    })
}

/// Counts alone are judged: how much time each way takes depends on the machine, so the ratios
/// are figures.
fn checks(rows: &[Echo]) -> Vec<Check> {
    let Some(row) = judged_rows(rows) else { return Vec::new() };
    let mut checks = vec![check_replies(rows)];
    let Echo { notifications, interrupts, waits, .. } = *row.both_poll;
    checks.push(Check::new(
        "guest and card poll: notifications, interrupts, exits of the guest",
        "0, 0 and 0 per packet",
        format!("{notifications}, {interrupts} and {waits}"),
        [notifications, interrupts, waits] == [0.0; 3],
    ));
    checks.push(check_reasons(row.both_poll));
    checks.push(Check::new(
        format!("event index, {} in flight", row.event_index.in_flight),
        format!("at most {NOTIFICATIONS_MAX} notifications per packet"),
        format!("{:.4}", row.event_index.notifications),
        row.event_index.notifications <= NOTIFICATIONS_MAX,
    ));
    checks
}

/// Whether KVM's own count by reason has the host's interrupts alone.
fn check_reasons(both_poll: &Echo) -> Check {
    let name = "guest and card poll: exits that are not the host's interrupts";
    let expected = format!("at most {OTHER_EXITS_MAX} per packet");
    let Some((exits, host_interrupts)) = both_poll.exits.zip(both_poll.host_interrupts) else {
        let why = "this kernel's KVM does not count exits by reason (since Linux 5.14)";
        return Check::not_measured(name, expected, why);
    };
    let others = exits - host_interrupts;
    let found = format!("{others:.4}, of {exits:.4} exits per packet");
    Check::new(name, expected, found, others <= OTHER_EXITS_MAX)
}

fn check_replies(rows: &[Echo]) -> Check {
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    let packets: u64 = rows.iter().map(|row| row.packets).sum();
    Check::new(
        "echo requests are answered",
        "all, in every mode",
        format!("{} of {packets}", packets - lost.min(packets)),
        lost == 0 && packets > 0,
    )
}

/// A way to send and to wait.
#[derive(Debug, Clone, Copy)]
struct NetworkMode {
    name: &'static str,
    /// How the guest waits.
    wait: Wait,
    event_index: bool,
    in_flight: u64,
    /// Packets for each look at whether to notify.
    batch: u64,
    /// Whether the card looks at the ring all the time.
    card_polls: bool,
    /// How long KVM polls when the vCPU halts, at the most.
    halt_polling_ns: u64,
}

const PLAIN: NetworkMode = NetworkMode {
    name: "plain",
    wait: Wait::Halt,
    event_index: false,
    in_flight: 1,
    batch: 1,
    card_polls: false,
    halt_polling_ns: 0,
};
const HYPERCALL: NetworkMode =
    NetworkMode { name: "hypercall loop", wait: Wait::Hypercall, ..PLAIN };
const READ_MSR: NetworkMode = NetworkMode { name: "RDMSR loop", wait: Wait::ReadMsr, ..PLAIN };
const BOTH_POLL: NetworkMode =
    NetworkMode { name: "guest and card poll", wait: Wait::Poll, card_polls: true, ..PLAIN };
const EVENT_INDEX: NetworkMode =
    NetworkMode { name: "64, event index", event_index: true, in_flight: 64, ..PLAIN };

/// All of them; the first is what others are compared with.
const MODES: [NetworkMode; 11] = [
    PLAIN,
    NetworkMode { name: "busy loop", wait: Wait::Busy, ..PLAIN },
    READ_MSR,
    HYPERCALL,
    NetworkMode { name: "KVM polls", halt_polling_ns: 1_000_000, ..PLAIN },
    NetworkMode { name: "card polls", card_polls: true, ..PLAIN },
    NetworkMode { name: "guest polls", wait: Wait::Poll, ..PLAIN },
    BOTH_POLL,
    NetworkMode { name: "64 in flight", in_flight: 64, ..PLAIN },
    EVENT_INDEX,
    NetworkMode { name: "64, batches of 32", in_flight: 64, batch: 32, ..PLAIN },
];

/// The rows whose counts are judged.
struct Judged<'a> {
    both_poll: &'a Echo,
    event_index: &'a Echo,
}

/// Those rows, where all were measured.
fn judged_rows(rows: &[Echo]) -> Option<Judged<'_>> {
    let of = |mode: &NetworkMode| rows.iter().find(|row| row.mode == mode.name);
    Some(Judged { both_poll: of(&BOTH_POLL)?, event_index: of(&EVENT_INDEX)? })
}

#[cfg(test)]
mod tests;
