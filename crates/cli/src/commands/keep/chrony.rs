//! Working with chronyd: it keeps the clock, we tell it what it cannot see.

use std::time::Duration;

use keeper::Reading;
use sources::chronyd_client::{self, Address, ChronydClient, ChronydError, Feed, FeedError};
use units::OffsetBound;

use super::options::{Args, Chrony};

/// A chronyd that is asked, fed, or both.
#[derive(Debug, Default)]
pub(super) struct ChronyHand {
    client: ChronydClient,
    feed: Option<Feed>,
    /// What it measured is of no use, and is to be dropped before it steps.
    is_stale: bool,
    /// Whether it took the last sample; none before the first.
    takes: Option<bool>,
}

/// Three commands, which none waits for longer.
pub(super) const LONGEST_ASKING: Duration = chronyd_client::TIMEOUT.saturating_mul(3);

/// Measurements that it is to take anew, and how often it may try.
const BURST: (u8, u8) = (3, 5);

impl ChronyHand {
    /// # Errors
    /// This process gets no socket.
    pub(super) fn new(args: &Args) -> Result<Self, FeedError> {
        let mut hand = Self::default();
        for chrony in &args.chrony {
            match chrony {
                Chrony::Sock(path) => hand.feed = Some(Feed::to(path)?),
                Chrony::Makestep(path) => {
                    hand.client = ChronydClient::new(path.clone().map(Address::Unix));
                }
            }
        }
        Ok(hand)
    }

    /// What it measured before the disruption says that all is well: it is to
    /// measure anew, and to step by that.
    pub(super) fn measure_anew(&mut self) {
        self.is_stale = true;
    }

    /// Has it step.
    ///
    /// # Errors
    /// It is not there, or refuses.
    pub(super) fn step(&mut self) -> Result<(), ChronydError> {
        if self.is_stale {
            self.client.reset_sources()?;
            self.is_stale = false;
            // Refused by one that has reference clocks alone.
            let _ = self.client.burst(BURST.0, BURST.1);
        }
        self.client.makestep()
    }

    /// Hands it a sample: whether it took it, and what is to be said of that,
    /// where it has changed.
    pub(super) fn feed(&mut self, reading: &Reading) -> (bool, Option<Result<(), FeedError>>) {
        let offset = OffsetBound {
            offset_ns: reading.offset_ns,
            bound_ns: reading.bound_ns,
            at_monotonic_ns: reading.at_ns,
        };
        let Some(feed) = &self.feed else { return (false, None) };
        let told = feed.sample(&offset);
        let is_taken = told.is_ok();
        let took = self.takes.replace(is_taken);
        match (&told, took) {
            (Ok(()), None | Some(true)) | (Err(_), Some(false)) => (is_taken, None),
            _ => (is_taken, Some(told)),
        }
    }
}
