//! The row of a way to send packets and wait for replies.

use instruments::measurements::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One way to send echo requests and wait for replies. A packet is a request with its
/// reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Echo {
    /// Which.
    pub mode: String,
    /// Packets that may be without a reply.
    pub in_flight: u64,
    /// Notifications that the guest made, for each packet.
    pub notifications: f64,
    /// Interrupts that the guest took, each with one end of interrupt, for each packet.
    pub interrupts: f64,
    /// HLT, RDMSR or hypercalls of a guest that waited, for each packet.
    pub waits: f64,
    /// Exits that KVM counted, of all kinds, for each packet, where it counts. Those of
    /// setting the card up are taken off.
    pub exits: Option<f64>,
    /// Of these the interrupts of the host, its own and those of other processes; the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_interrupts: Option<f64>,
    /// Instructions that KVM emulated, for each packet, where it counts; the same.
    pub emulated: Option<f64>,
    /// Frames that the card copied, for each packet.
    pub copies: f64,
    /// Bytes that it copied, for each packet.
    pub bytes: f64,
    /// From the request to its reply, ns; of all rounds.
    pub round_trip_ns: Spread,
    /// Of which nine in ten took at most this, ns.
    pub p90_ns: f64,
    /// The same over that of `plain`: the median of the ratios of rounds in which others
    /// left both their CPU, if any.
    pub p90_over_plain: Option<f64>,
    /// Those rounds.
    pub quiet_rounds: u64,
    /// How long the other side takes before it replies, ns.
    pub delay_ns: u64,
    /// What an exit to this process costs on this machine, ns.
    pub exit_ns: f64,
    /// Rounds.
    pub rounds: u64,
    /// Packets, of all rounds.
    pub packets: u64,
    /// Requests without a whole reply.
    pub lost: u64,
}
