//! The row of a lock under contention.

use instruments::measurements::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One lock with so many vCPUs on so many CPUs, each holding it for so long: medians
/// of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contention {
    /// How its waiters wait: `spin`, `yield`, `halt` (paravirtual), `unfair`.
    pub lock: String,
    /// vCPUs that take it in turn.
    pub vcpus: usize,
    /// CPUs of the host that they share.
    pub cpus: usize,
    /// How long each holds it, ns.
    pub hold_ns: u64,
    /// How often a second it was taken.
    pub takes_per_s: f64,
    /// How often a second a vCPU took it that did not have it last.
    pub handovers_per_s: f64,
    /// From one vCPU's freeing it to the next one's having it, where that waited, ns;
    /// within 7 %. Of all rounds.
    pub handover_ns: Option<Spread>,
    /// A waiter's halts, or yields, for each take.
    pub halts_per_take: f64,
    /// Kicks for each take.
    pub kicks_per_take: f64,
    /// PAUSE loops of waiters for each take.
    pub spins_per_take: f64,
    /// Takes of the vCPU that got the least over an equal share: 1 is fair.
    pub fairness: f64,
    /// How many CPUs the machine had meanwhile: less than there are where it halts, or
    /// where others took them.
    pub cpus_had: f64,
    /// What an exit to this process costs on this machine, ns: a halt and a kick are
    /// one each.
    pub exit_ns: f64,
    /// Rounds.
    pub rounds: u64,
}
