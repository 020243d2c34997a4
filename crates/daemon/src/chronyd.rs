//! A chronyd that corrects the clock: it is sent what it cannot detect.

use std::time::Duration;

use pvclock::units::OffsetBound;
use sources::chronyd_client::{self, ChronydError, Feed, FeedError};

use crate::polled::Change;
use crate::settings::ChronydSettings;

/// A chronyd that is commanded, fed, or both.
#[derive(Debug, Default)]
pub(crate) struct ChronydCommands {
    commands: chronyd_client::ChronydClient,
    feed: Option<Feed>,
    /// It has to drop its measurements before it steps.
    restart: bool,
    /// Whether it accepted the last sample; `None` before the first.
    fed: Option<Change>,
    /// Whether it carried out the last command; `None` before the first.
    commanded: Option<Change>,
}

/// Whether chronyd has servers, or reference clocks alone.
enum HasServers {
    Yes,
    No,
}

/// Three commands, each of which is given up after this.
pub(crate) const LONGEST_STEP: Duration = chronyd_client::TIMEOUT.saturating_mul(3);

/// What follows where it cannot be commanded: a step of more than 10 s it detects itself
/// ("time jump detected", sched.c).
const NOT_COMMANDED: &str = "the clock is still stepped, and chronyd detects that at its next poll; \
    to let parachrond command chronyd, run it as chrony's user or as root";

/// `burst 3/5`: good measurements wanted, and requests for them.
const BURST: (u8, u8) = (3, 5);

impl ChronydCommands {
    /// # Errors
    /// This process gets no socket.
    pub(crate) fn new(settings: &ChronydSettings) -> Result<Self, FeedError> {
        let address = settings.makestep.clone().flatten();
        let feed = settings.feed.as_deref().map(Feed::connect).transpose()?;
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
        if why.has_failed() { None } else { self.note_command(Err(why)) }
    }

    /// After a disruption, or a step that is not chronyd's: has it drop what it
    /// measured and measure again. Its frequency is the kernel's, and stays. Returned is
    /// what is to be reported.
    ///
    /// One that has reference clocks alone keeps its measurements: it has no server to ask
    /// at once, and `reset sources` left chronyd 4.3 "Not synchronised" for 41 s (three
    /// polls of 16 s). The right samples before and after the disruption agree with each
    /// other, and a wrong one between them did not move it: it filters the samples of a poll.
    pub(crate) fn measure_anew(&mut self) -> Option<Change> {
        let restarted = match self.burst() {
            Ok(HasServers::No) => Ok(()),
            Ok(HasServers::Yes) => self.commands.reset_sources(),
            Err(why) => Err(why),
        };
        self.note_command(restarted)
    }

    fn restart_measurements(&mut self) -> Result<(), ChronydError> {
        self.burst()?;
        self.commands.reset_sources()
    }

    /// Before a reset: its requests are answered after it (4.3 s with either order).
    fn burst(&mut self) -> Result<HasServers, ChronydError> {
        match self.commands.burst(BURST.0, BURST.1) {
            Ok(()) => Ok(HasServers::Yes),
            Err(why) if why.has_no_servers() => Ok(HasServers::No),
            Err(why) => Err(why),
        }
    }

    /// Notes whether it carried out a command. Returned is what has changed.
    fn note_command(&mut self, done: Result<(), ChronydError>) -> Option<Change> {
        let done = done.map_err(|why| format!("{why}; {NOT_COMMANDED}"));
        let before = self.commanded.replace(done.clone());
        has_changed(before.as_ref(), &done).then_some(done)
    }

    /// Why it did not carry out the last command, or did not accept the last sample.
    pub(crate) fn trouble(&self) -> Option<&str> {
        [&self.commanded, &self.fed]
            .into_iter()
            .find_map(|last| last.as_ref()?.as_ref().err())
            .map(String::as_str)
    }

    /// Sends `makestep`.
    ///
    /// # Errors
    /// It is not running, or refuses.
    pub(crate) fn step(&mut self) -> Result<(), ChronydError> {
        let done = if self.restart { self.restart_measurements() } else { Ok(()) };
        self.restart &= done.is_err();
        let done = done.and_then(|()| self.commands.makestep());
        self.commanded = Some(done.as_ref().copied().map_err(ToString::to_string));
        done
    }

    /// Feeds it a sample: whether it accepted it, and the result where that
    /// has changed.
    pub(crate) fn feed(&mut self, offset: &OffsetBound) -> (bool, Option<Change>) {
        let Some(feed) = &self.feed else { return (false, None) };
        let sent = feed.sample(offset);
        let is_accepted = sent.is_ok();
        let sent = sent.map_err(|why| why.to_string());
        let before = self.fed.replace(sent.clone());
        (is_accepted, has_changed(before.as_ref(), &sent).then_some(sent))
    }
}

/// Whether it fails that did not fail before, or the other way round.
fn has_changed(before: Option<&Change>, now: &Change) -> bool {
    before.is_none_or(Result::is_ok) != now.is_ok()
}

#[cfg(test)]
mod tests;
