//! How often each address is answered.

use std::collections::HashMap;
use std::net::IpAddr;

/// An address is answered so often at once,
const BURST: u64 = 16;
/// and then once in this, ns: a peer asks once in ten seconds.
const EACH_NS: u64 = 1_000_000_000;
/// So many addresses are remembered; 256 KB.
const MOST: usize = 8192;

/// Addresses that asked lately. Time is any clock's that goes forward, ns.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Each one's answers are paid for till then.
    paid_until_ns: HashMap<IpAddr, u64>,
}

impl Limiter {
    /// Whether an address that asks now is answered. (The generic cell rate algorithm:
    /// each answer costs [`EACH_NS`], and [`BURST`] of them may be owed.)
    ///
    /// While too many addresses ask at a time, new ones are not.
    pub fn allows(&mut self, address: IpAddr, now_ns: u64) -> bool {
        if self.paid_until_ns.len() >= MOST && !self.paid_until_ns.contains_key(&address) {
            self.paid_until_ns.retain(|_, until_ns| *until_ns > now_ns);
            if self.paid_until_ns.len() >= MOST {
                return false;
            }
        }
        let until_ns = self.paid_until_ns.entry(address).or_default();
        let next_ns = (*until_ns).max(now_ns).saturating_add(EACH_NS);
        let is_allowed = next_ns <= now_ns.saturating_add(BURST * EACH_NS);
        if is_allowed {
            *until_ns = next_ns;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_its_burst_and_then_one_a_second() {
        let mut limiter = Limiter::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let within = |limiter: &mut Limiter, from_ms: u64, to_ms: u64| {
            (from_ms..to_ms).filter(|ms| limiter.allows(one, ms * 1_000_000)).count()
        };
        assert_eq!(within(&mut limiter, 0, 1000), 16);
        assert_eq!(within(&mut limiter, 1000, 11_000), 10);
        assert!(limiter.allows(other, 0));
    }

    #[test]
    fn it_remembers_no_more_than_it_may() {
        let mut limiter = Limiter::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        let answered = (0..20_000).filter(|n| limiter.allows(address(*n), 0)).count();
        assert_eq!((answered, limiter.paid_until_ns.len()), (MOST, MOST));
        assert!(limiter.allows(address(20_000), 2_000_000_000));
    }
}
