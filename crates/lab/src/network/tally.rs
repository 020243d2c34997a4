//! What the rounds of one way counted.

use guest::network::PacketCount;
use instruments::measurements::Spread;
use pvclock::Hertz;
use serde::Serialize;

use crate::bench::median;

/// One way to send echo requests and wait for replies: counts are for each packet, which is a
/// request with its reply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Echo {
    pub(super) mode: &'static str,
    /// Packets that may be without a reply.
    pub(super) in_flight: u64,
    pub(super) notifications: f64,
    /// Interrupts that the guest took, each with one end of interrupt.
    pub(super) interrupts: f64,
    /// HLT, RDMSR or hypercalls of a guest that waited.
    pub(super) waits: f64,
    /// Exits that KVM counted, of all kinds, where it counts; without those of setting the card up.
    pub(super) exits: Option<f64>,
    /// Of these the interrupts of the host, its own and those of other processes.
    pub(super) host_interrupts: Option<f64>,
    /// Instructions that KVM emulated, where it counts.
    pub(super) emulated: Option<f64>,
    /// Frames and bytes that the card copied.
    pub(super) copies: f64,
    pub(super) bytes: f64,
    /// Of all rounds.
    pub(super) round_trip_ns: Spread,
    pub(super) p90_ns: f64,
    /// The median of the ratios of rounds in which others left both their CPU.
    pub(super) p90_over_plain: Option<f64>,
    /// Those rounds.
    pub(super) quiet_rounds: u64,
    /// How long the other side takes before it replies.
    pub(super) delay_ns: u64,
    /// What an exit to this process costs on this machine.
    pub(super) exit_ns: f64,
    pub(super) rounds: u64,
    pub(super) packets: u64,
    /// Requests without a whole reply.
    pub(super) lost: u64,
}

/// The most that a vCPU may wait for its CPU: a wake-up takes some of it.
const WAITED_MAX: f64 = 0.1;

/// One turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    pub(super) pings: u64,
    pub(super) counted: PacketCount,
    /// Of each round trip.
    pub(super) cycles: Vec<u64>,
    pub(super) exits: Option<u64>,
    pub(super) host_interrupts: Option<u64>,
    pub(super) emulated: Option<u64>,
    pub(super) copies: u64,
    pub(super) bytes: u64,
    /// How long the vCPU's thread waited for its CPU, over how long it all took.
    pub(super) waited: f64,
}

impl Turn {
    /// Less what another turn took that did nothing else as well.
    pub(super) fn without(self, other: &Self) -> Self {
        let less = |all: Option<u64>, one: Option<u64>| Some(all?.saturating_sub(one?));
        let of = |all: u64, one: u64| all.saturating_sub(one);
        let (all, one) = (self.counted, other.counted);
        Self {
            pings: of(self.pings, other.pings),
            counted: PacketCount {
                replies: of(all.replies, one.replies),
                strange: all.strange.saturating_add(one.strange),
                notifications: of(all.notifications, one.notifications),
                interrupts: of(all.interrupts, one.interrupts),
                exits: of(all.exits, one.exits),
                cycles: of(all.cycles, one.cycles),
            },
            exits: less(self.exits, other.exits),
            host_interrupts: less(self.host_interrupts, other.host_interrupts),
            emulated: less(self.emulated, other.emulated),
            copies: of(self.copies, other.copies),
            bytes: of(self.bytes, other.bytes),
            waited: self.waited,
            cycles: self.cycles,
        }
    }

    /// Whether others left it its CPU.
    fn is_quiet(&self) -> bool {
        self.waited <= WAITED_MAX
    }

    /// At most so long took this share of the pings, cycles.
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.cycles.clone();
        sorted.sort_unstable();
        quantile(&sorted, share)
    }
}

/// Of sorted values the one that this share is at most; 0 of none.
fn quantile(sorted: &[u64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted.get(rank - 1).map_or(0.0, |cycles| *cycles as f64)
}

/// All rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct NetworkTally(Vec<Turn>);

impl NetworkTally {
    pub(super) fn add(&mut self, turn: Turn) {
        self.0.push(turn);
    }

    /// Its p90 over that of `plain`, by rounds in which others left both their CPU.
    pub(super) fn ratios(&self, plain: &Self) -> Vec<f64> {
        let rounds = self.0.iter().zip(&plain.0);
        let quiet = rounds.filter(|(own, plain)| own.is_quiet() && plain.is_quiet());
        quiet.map(|(own, plain)| own.quantile(0.9) / plain.quantile(0.9)).collect()
    }

    fn sum(&self, pick: impl Fn(&Turn) -> u64) -> u64 {
        self.0.iter().fold(0, |sum, turn| sum.saturating_add(pick(turn)))
    }

    /// The figures; what was sent is the caller's to fill in. `None` of nothing.
    pub(super) fn row(&self, plain: &Self, tsc: Hertz) -> Option<Echo> {
        let packets = self.sum(|turn| turn.pings);
        let a_packet = |pick: fn(&Turn) -> u64| self.sum(pick) as f64 / packets as f64;
        let kvm = |pick: fn(&Turn) -> Option<u64>| {
            let all: Option<Vec<u64>> = self.0.iter().map(pick).collect();
            Some(all?.into_iter().map(|count| count as f64).sum::<f64>() / packets as f64)
        };
        let mut sorted: Vec<u64> = self.0.iter().flat_map(|turn| turn.cycles.clone()).collect();
        sorted.sort_unstable();
        if packets == 0 || sorted.is_empty() {
            return None;
        }
        let ns = |share: f64| quantile(&sorted, share) * 1e9 / tsc.0 as f64;
        let ratios = self.ratios(plain);
        Some(Echo {
            mode: "",
            in_flight: 0,
            notifications: a_packet(|turn| turn.counted.notifications),
            interrupts: a_packet(|turn| turn.counted.interrupts),
            waits: a_packet(|turn| turn.counted.exits),
            exits: kvm(|turn| turn.exits),
            host_interrupts: kvm(|turn| turn.host_interrupts),
            emulated: kvm(|turn| turn.emulated),
            copies: a_packet(|turn| turn.copies),
            bytes: a_packet(|turn| turn.bytes),
            round_trip_ns: Spread { min: ns(0.0), median: ns(0.5), p99: ns(0.99), max: ns(1.0) },
            p90_ns: ns(0.9),
            quiet_rounds: ratios.len() as u64,
            p90_over_plain: (!ratios.is_empty()).then(|| median(ratios)),
            delay_ns: 0,
            exit_ns: 0.0,
            rounds: self.0.len() as u64,
            packets,
            lost: packets
                .saturating_sub(self.sum(|turn| turn.counted.replies))
                .saturating_add(self.sum(|turn| turn.counted.strange)),
        })
    }
}
