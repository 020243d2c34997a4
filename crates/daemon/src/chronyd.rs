//! A chronyd that corrects the clock: it is sent what it cannot detect.

use std::time::Duration;

use sources::chronyd_client::{self, ChronydError, Feed, FeedError};
use units::OffsetBound;

use crate::polled::Change;
use crate::settings::ChronydSettings;

/// A chronyd that is commanded, fed, or both.
#[derive(Debug, Default)]
pub(crate) struct ChronydClient {
    commands: chronyd_client::ChronydClient,
    feed: Option<Feed>,
    /// It has to drop its measurements before it steps.
    restart: bool,
    /// Whether it accepted the last sample; `None` before the first.
    accepts: Option<bool>,
    /// Whether it did as it was told of ours beside it; `None` before the first time.
    obeys: Option<bool>,
}

/// Three commands, each of which is given up after this.
pub(crate) const LONGEST_STEP: Duration = chronyd_client::TIMEOUT.saturating_mul(3);

/// What follows where it cannot be told: a step of more than 10 s it notices by itself
/// ("time jump detected", sched.c).
const UNTOLD: &str = "the clock is stepped all the same, and chronyd finds out at its next poll; \
    root and chrony's user may tell it";

/// `burst 3/5`: good measurements wanted, and requests for them.
const BURST: (u8, u8) = (3, 5);

impl ChronydClient {
    /// # Errors
    /// This process gets no socket.
    pub(crate) fn new(settings: &ChronydSettings) -> Result<Self, FeedError> {
        let address = settings.makestep.clone().flatten();
        let feed = settings.feed.as_deref().map(Feed::to).transpose()?;
        let commands = chronyd_client::ChronydClient::new(address);
        Ok(Self { commands, feed, ..Self::default() })
    }

    /// Its measurements from before a disruption show no error: the next step
    /// has it drop them and take new ones first.
    pub(crate) fn restart(&mut self) {
        self.restart = true;
    }

    /// Before a step that is not chronyd's: has it finish at once what it is
    /// slewing itself, lest that is added to the step over the next minutes
    /// (`LCL_MakeStep`, chrony's local.c). The caller finds out whether that
    /// moved the clock. Returned is what is to be reported.
    pub(crate) fn finish_slew(&mut self) -> Option<Change> {
        let why = self.commands.makestep().err()?;
        // One without the right to set the clock slews nothing that matters. And it may
        // take this command and not the next, so success is that one's to tell.
        if why.has_failed() { None } else { self.obeyed(Err(why)) }
    }

    /// After a disruption, or a step that is not chronyd's: has it drop what it
    /// measured and measure anew. Its frequency is the kernel's, and stays. Returned is
    /// what is to be reported.
    pub(crate) fn measure_anew(&mut self) -> Option<Change> {
        let reset = self.commands.reset_sources();
        if reset.is_ok() {
            // Refused by one that has reference clocks alone.
            let _ = self.commands.burst(BURST.0, BURST.1);
        }
        self.obeyed(reset)
    }

    /// What is new of whether it does as it is told.
    fn obeyed(&mut self, done: Result<(), ChronydError>) -> Option<Change> {
        let before = self.obeys.replace(done.is_ok());
        let is_change = before.unwrap_or(true) != done.is_ok();
        is_change.then(|| done.map_err(|why| format!("{why}; {UNTOLD}")))
    }

    /// Sends `makestep`.
    ///
    /// # Errors
    /// It is not running, or refuses.
    pub(crate) fn step(&mut self) -> Result<(), ChronydError> {
        if self.restart {
            self.commands.reset_sources()?;
            self.restart = false;
            // Refused by one that has reference clocks alone.
            let _ = self.commands.burst(BURST.0, BURST.1);
        }
        self.commands.makestep()
    }

    /// Feeds it a sample: whether it accepted it, and the result where that
    /// has changed.
    pub(crate) fn feed(&mut self, offset: &OffsetBound) -> (bool, Option<Change>) {
        let Some(feed) = &self.feed else { return (false, None) };
        let sent = feed.sample(offset);
        let is_accepted = sent.is_ok();
        let before = self.accepts.replace(is_accepted);
        let is_change = before.unwrap_or(true) != is_accepted;
        (is_accepted, is_change.then(|| sent.map_err(|why| why.to_string())))
    }
}

#[cfg(test)]
mod tests;
