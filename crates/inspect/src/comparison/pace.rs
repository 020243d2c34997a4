//! How often a reference is read.

use std::net::IpAddr;
use std::time::Duration;

/// Comparisons of a run with a reference nearby: behind 1 ms of jitter, 600
/// find a frequency within 1 ppm in a minute.
const WANTED: u32 = 600;

/// Time between comparisons with a reference nearby, from a short run to a long
/// one.
const NEAR: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Time between requests to somebody else's server.
const POLITE: Duration = Duration::from_secs(4);

/// From its second failure in a row on, a reference pauses for this many times
/// the wait for it: at first it takes a ninth of the others' time.
const PAUSE: u32 = 8;

/// How often that doubles at most: to a minute where the wait was a second.
const DOUBLINGS: u32 = 3;

/// Time between comparisons: as requested, or by the reference.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    requested: Option<Duration>,
    run: Duration,
}

impl Pace {
    /// For a run of that length.
    pub fn new(requested: Option<Duration>, run: Duration) -> Self {
        Self { requested, run }
    }

    /// A clock or server of our own.
    pub fn near(self) -> Duration {
        self.requested.unwrap_or_else(|| (self.run / WANTED).clamp(NEAR.0, NEAR.1))
    }

    /// chronyd's estimate changes with its polls.
    pub fn chronyd(self) -> Duration {
        self.requested.unwrap_or(NEAR.1)
    }

    /// A server at that address.
    pub fn server(self, address: IpAddr) -> Duration {
        if is_near(address) { self.near() } else { self.requested.unwrap_or(POLITE) }
    }
}

/// Whether an address is of this machine or a private network.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// How long a reference pauses that failed so many times in a row and was
/// `waited` for the last time. One lost reply is no reason to.
pub(super) fn pause_after(failed_in_a_row: u32, waited: Duration) -> Duration {
    match failed_in_a_row {
        0 | 1 => Duration::ZERO,
        more => waited * (PAUSE << (more - 2).min(DOUBLINGS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_that_does_not_reply_pauses_for_longer_and_longer() {
        let pauses_s = (0..8).map(|failed| pause_after(failed, Duration::from_secs(1)).as_secs());
        assert_eq!(pauses_s.collect::<Vec<_>>(), [0, 0, 8, 16, 32, 64, 64, 64]);
        // One that fails at once delays no other.
        assert_eq!(pause_after(9, Duration::ZERO), Duration::ZERO);
    }
}
