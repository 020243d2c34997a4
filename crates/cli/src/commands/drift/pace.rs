//! How often a reference is asked.

use std::net::IpAddr;
use std::time::Duration;

/// Comparisons that a run is to have where nobody is bothered by them: behind
/// 1 ms of jitter, 600 find a frequency within 1 ppm in a minute.
const WANTED: u32 = 600;

/// Time between comparisons where nobody is bothered, from a short run to a
/// long one.
const NEAR: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Time between requests to a server of somebody else.
const POLITE: Duration = Duration::from_secs(4);

/// How many times as long as it was waited for in vain a reference is left
/// alone, from its second failure in a row on: it takes a ninth of the others'
/// time at first.
const LEFT_ALONE: u32 = 8;

/// By how often that doubles at most: a minute where a second was waited.
const DOUBLINGS: u32 = 3;

/// Time between comparisons, as asked for or as fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    asked: Option<Duration>,
    run: Duration,
}

impl Pace {
    /// For a run of that length.
    pub(super) fn of(asked: Option<Duration>, run: Duration) -> Self {
        Self { asked, run }
    }

    /// A clock or server that nobody minds being asked.
    pub(super) fn near(self) -> Duration {
        self.asked.unwrap_or_else(|| (self.run / WANTED).clamp(NEAR.0, NEAR.1))
    }

    /// chronyd's view changes with its polls, and a program is started to ask.
    pub(super) fn chronyd(self) -> Duration {
        self.asked.unwrap_or(NEAR.1)
    }

    /// A server at that address.
    pub(super) fn server(self, address: IpAddr) -> Duration {
        if is_near(address) { self.near() } else { self.asked.unwrap_or(POLITE) }
    }
}

/// Whether an address is of this machine or a private network.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// How long a reference is left alone that failed so many times in a row and
/// was `waited` for the last time. One lost answer is no reason to.
pub(super) fn pause_after(failed_in_a_row: u32, waited: Duration) -> Duration {
    match failed_in_a_row {
        0 | 1 => Duration::ZERO,
        more => waited * (LEFT_ALONE << (more - 2).min(DOUBLINGS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_that_is_waited_for_in_vain_is_left_alone_for_longer_and_longer() {
        let pauses_s = (0..8).map(|failed| pause_after(failed, Duration::from_secs(1)).as_secs());
        assert_eq!(pauses_s.collect::<Vec<_>>(), [0, 0, 8, 16, 32, 64, 64, 64]);
        // One that fails at once takes nobody's time.
        assert_eq!(pause_after(9, Duration::ZERO), Duration::ZERO);
    }
}
