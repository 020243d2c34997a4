//! The ways.

use guest::network::Wait;

use super::tally::Echo;

/// A way to send and to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkMode {
    pub(super) name: &'static str,
    /// How the guest waits.
    pub(super) wait: Wait,
    pub(super) event_index: bool,
    pub(super) in_flight: u64,
    /// Packets for each look at whether to notify.
    pub(super) batch: u64,
    /// Whether the card looks at the ring all the time.
    pub(super) card_polls: bool,
    /// How long KVM polls when the vCPU halts, at the most.
    pub(super) halt_polling_ns: u64,
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
pub(super) const MODES: [NetworkMode; 11] = [
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
pub(super) struct Judged<'a> {
    pub(super) both_poll: &'a Echo,
    pub(super) event_index: &'a Echo,
}

/// They, where all were measured.
pub(super) fn rows(rows: &[Echo]) -> Option<Judged<'_>> {
    let of = |mode: &NetworkMode| rows.iter().find(|row| row.mode == mode.name);
    Some(Judged { both_poll: of(&BOTH_POLL)?, event_index: of(&EVENT_INDEX)? })
}
