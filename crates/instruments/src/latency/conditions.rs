//! What decides how late a program is, whatever happens in the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::LatenessCause;

/// What else decides how late a program is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Whether this is a virtual machine, by CPUID; other processors do not tell.
    pub is_guest: Option<bool>,
    /// The timer slack that this program inherited, ns.
    pub inherited_slack_ns: Option<u64>,
    /// What CLOCK_MONOTONIC claims as its resolution, ns.
    pub resolution_ns: Option<u64>,
    /// What one reading of it costs, ns.
    pub clock_read_ns: Option<f64>,
    /// The two CPUs of the figures across CPUs.
    pub pair: Option<CpuPair>,
    /// How a loop's speed changed.
    pub speed: Option<Speed>,
}

/// Two CPUs, and how near they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPair {
    /// The one.
    pub from: u32,
    /// The other.
    pub to: u32,
    /// Whether they are in one socket, as far as this machine is told.
    pub same_socket: Option<bool>,
    /// Whether they are threads of one core.
    pub same_core: Option<bool>,
}

/// A spinning loop's speed without its gaps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// A turn of the loop where it is quick, ns.
    pub quick_ns: f64,
    /// In those parts of a ms where it is slow, at the median, ns.
    pub slow_ns: f64,
    /// The share of these, 0 to 1.
    pub slow_share: f64,
    /// Of these, the share at the start of a burst: the CPU was idle before.
    pub slow_at_start: f64,
}

/// Turns are slow beyond so much of the quick ones: sharing a core costs more,
/// and so do most steps of frequency.
const SLOW: f64 = 1.25;

/// The first part of a burst, while a frequency rises.
const START: f64 = 0.2;

impl Speed {
    /// Of bursts: each a list of ns a turn, for each ms.
    pub fn from_bursts(bursts: &[Vec<f64>]) -> Option<Self> {
        let mut all: Vec<f64> = bursts.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let quick_ns = *all.get(all.len() / 10)?;
        let is_slow = |turn: f64| turn > quick_ns * SLOW;
        let slow: Vec<f64> = all.iter().copied().filter(|turn| is_slow(*turn)).collect();
        let starts = bursts.iter().map(|burst| {
            let start = (burst.len() as f64 * START).ceil() as usize;
            burst.iter().take(start).filter(|turn| is_slow(**turn)).count()
        });
        let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
        Some(Self {
            quick_ns,
            slow_ns: slow.get(slow.len() / 2).copied().unwrap_or(quick_ns),
            slow_share: share(slow.len(), all.len()),
            slow_at_start: share(starts.sum(), slow.len()),
        })
    }

    /// What a change of speed shows.
    pub(super) fn cause(&self) -> Option<LatenessCause> {
        // Less is a few unlucky interrupts.
        if self.slow_share < 0.05 {
            None
        } else if self.slow_at_start >= 0.7 {
            Some(LatenessCause::Frequency)
        } else {
            Some(LatenessCause::Neighbour)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_the_frequencys_and_a_change_in_between_a_neighbours() {
        let cause =
            |bursts: &[Vec<f64>]| Speed::from_bursts(bursts).and_then(|speed| speed.cause());
        let steady = vec![10.0; 200];
        assert_eq!(cause(&[steady.clone(), steady.clone()]), None);
        let ramp: Vec<f64> = (0..200).map(|ms| if ms < 30 { 21.0 } else { 10.0 }).collect();
        assert_eq!(cause(&[ramp.clone(), ramp]), Some(LatenessCause::Frequency));
        let shared: Vec<f64> = (0..200).map(|ms| if ms % 100 > 60 { 17.0 } else { 10.0 }).collect();
        let speed = Speed::from_bursts(&[steady, shared.clone()]).unwrap();
        assert_eq!((speed.quick_ns, speed.slow_ns), (10.0, 17.0));
        assert_eq!(cause(&[shared]), Some(LatenessCause::Neighbour));
        assert_eq!(Speed::from_bursts(&[]), None);
    }
}
