//! How often each address is answered.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

/// An address is answered so often at once,
const BURST: u64 = 16;
/// and then once in this, ns: a peer asks twice in ten seconds, and in one at the most.
const EACH_NS: u64 = 500_000_000;
/// Addresses share so many places; 256 KB.
const PLACES: usize = 32_768;

/// When addresses asked lately. Time is any clock's that goes forward, ns.
///
/// Each has a place, by a hash that nobody else can compute, and may share it: so nothing
/// is searched or given up, and forged senders keep a peer out only by as many packets a
/// half a second as there are places. Who has an IPv6 network of 64 bits has one place.
#[derive(Debug)]
pub struct Limiter {
    /// Each place's answers are paid for till then.
    paid_until_ns: Box<[u64]>,
    hash: RandomState,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { paid_until_ns: vec![0; PLACES].into(), hash: RandomState::new() }
    }
}

impl Limiter {
    /// Whether an address that asks now is answered. (The generic cell rate algorithm:
    /// each answer costs half a second, and 16 of them may be owed.)
    pub fn allows(&mut self, address: IpAddr, now_ns: u64) -> bool {
        let address = match address {
            IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        };
        let place = self.hash.hash_one(address) as usize % PLACES;
        let until_ns = &mut self.paid_until_ns[place];
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
    fn a_flood_gets_its_burst_and_then_two_a_second() {
        let mut limiter = Limiter::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let within = |limiter: &mut Limiter, from_ms: u64, to_ms: u64| {
            (from_ms..to_ms).filter(|ms| limiter.allows(one, ms * 1_000_000)).count()
        };
        assert_eq!(within(&mut limiter, 0, 1000), 17);
        assert_eq!(within(&mut limiter, 1000, 11_000), 20);
        assert!(limiter.allows(other, 0));
    }

    #[test]
    fn forged_senders_do_not_keep_a_peer_out() {
        let mut limiter = Limiter::default();
        let forged = |n: u32| IpAddr::from((0x0a00_0000 | n).to_be_bytes());
        let answered = (0..20_000).filter(|n| limiter.allows(forged(*n), 0)).count();
        assert_eq!(answered, 20_000);
        assert!(limiter.allows(IpAddr::from([192, 0, 2, 1]), 0));
    }

    #[test]
    fn a_network_of_64_bits_is_one_sender() {
        let mut limiter = Limiter::default();
        let of = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        assert_eq!((0..1000).filter(|n| limiter.allows(of(*n), 0)).count(), 16);
    }
}
