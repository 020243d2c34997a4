//! Waiting for a deadline, and for what comes before it.

use std::io::{Read, Stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use crate::signals::is_ignored;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The deadline has passed.
    Deadline,
    /// This descriptor can be read.
    Readable(Token),
    /// A signal that ends the process arrived.
    Signal,
    /// SIGHUP arrived, of [`Signals::of_a_daemon`].
    Reload,
    /// The reader of standard output has exited, or a descriptor hung up.
    ReaderGone,
}

/// A descriptor that was [added](WaitUntil::add) to a [`WaitUntil`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(usize);

/// The signals that a process waits for.
#[derive(Debug)]
pub struct Signals {
    ending: UnixStream,
    reload: Option<UnixStream>,
}

impl Signals {
    /// SIGINT, SIGTERM, and SIGHUP unless `nohup` has it ignored. From now on the
    /// first one ends a wait; the second ends the process, which may be blocked
    /// in a write to a reader that does not read.
    ///
    /// # Errors
    /// The system has no socket pair or takes no handler.
    pub fn ending() -> std::io::Result<Self> {
        let all = [SIGINT, SIGTERM, SIGHUP];
        let heard = if is_ignored(SIGHUP) { &all[..2] } else { &all[..] };
        Ok(Self { ending: ending(heard)?, reload: None })
    }

    /// SIGINT and SIGTERM, as of [`Signals::ending`]; SIGHUP has a daemon read
    /// its configuration again.
    ///
    /// # Errors
    /// As of [`Signals::ending`].
    pub fn of_a_daemon() -> std::io::Result<Self> {
        let (reload, handler) = UnixStream::pair()?;
        reload.set_nonblocking(true)?;
        pipe::register(SIGHUP, handler)?;
        Ok(Self { ending: ending(&[SIGINT, SIGTERM])?, reload: Some(reload) })
    }
}

/// Readable once one of these has arrived.
fn ending(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (ending, handler) = UnixStream::pair()?;
    let again = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        // Handlers run in this order: the first signal finds it unset.
        flag::register_conditional_default(signal, Arc::clone(&again))?;
        flag::register(signal, Arc::clone(&again))?;
        pipe::register(signal, handler.try_clone()?)?;
    }
    Ok(ending)
}

/// Waits for a deadline, signals and descriptors.
#[derive(Debug)]
pub struct WaitUntil {
    signals: Signals,
    output: Option<Stdout>,
    readable: Vec<OwnedFd>,
    muted: Option<Token>,
}

impl WaitUntil {
    /// Waits for `signals` and nothing else yet.
    pub fn new(signals: Signals) -> Self {
        Self { signals, output: None, readable: Vec::new(), muted: None }
    }

    /// Ends as well when the reader of standard output exits.
    #[must_use]
    pub fn for_reader(self) -> Self {
        Self { output: Some(std::io::stdout()), ..self }
    }

    /// Wakes when `fd` can be read. It is duplicated, so that the caller keeps
    /// the use of its own; where several are readable, the one added first is
    /// reported first.
    ///
    /// # Errors
    /// The process has as many descriptors open as it may.
    pub fn add(&mut self, fd: impl AsFd) -> std::io::Result<Token> {
        self.readable.push(fd.as_fd().try_clone_to_owned()?);
        Ok(Token(self.readable.len() - 1))
    }

    /// Waits for this descriptor no more, until another is muted, or none: so
    /// that whoever writes to it all the time does not wake it all the time.
    pub fn mute(&mut self, token: Option<Token>) {
        self.muted = token;
    }

    /// Waits for no descriptor any more; tokens so far name none.
    pub fn forget_all(&mut self) {
        self.readable.clear();
        self.muted = None;
    }

    /// Waits until `deadline`.
    ///
    /// # Errors
    /// Those of poll.
    pub fn until(&self, deadline: Instant) -> std::io::Result<Wake> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let readable = self.readable.iter().enumerate().map(|(index, fd)| {
                let is_muted = self.muted == Some(Token(index));
                PollFd::new(fd, if is_muted { PollFlags::empty() } else { PollFlags::IN })
            });
            let mut polled = vec![PollFd::new(&self.signals.ending, PollFlags::IN)];
            polled.extend(readable);
            let reload = polled.len();
            polled.extend(self.signals.reload.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let output = polled.len();
            // No event requested: poll reports a pipe without a reader anyway.
            polled.extend(self.output.iter().map(|fd| PollFd::new(fd, PollFlags::empty())));
            match poll(&mut polled, Some(&timespec(left))) {
                // The handler has written to the pair.
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(0) => return Ok(Wake::Deadline),
                Ok(_) => {}
            }
            let events: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
            let is_quiet = |events: &[PollFlags]| events.iter().all(|event| event.is_empty());
            if let (true, Some(mut signals)) = (
                is_quiet(&events[..1]) && !is_quiet(&events[reload..output]),
                self.signals.reload.as_ref(),
            ) {
                // Several at once are one.
                let _ = signals.read(&mut [0; 64]);
                return Ok(Wake::Reload);
            }
            let events = [&events[..reload], &events[output..]].concat();
            return Ok(wake(&events, self.readable.len()));
        }
    }
}

/// What poll's events mean: of the signals, of so many descriptors, and of the
/// output, where it is watched.
fn wake(events: &[PollFlags], descriptors: usize) -> Wake {
    let (readable, output) = events[1..].split_at(descriptors);
    if !events[0].is_empty() {
        Wake::Signal
    } else if output.iter().any(|event| !event.is_empty()) {
        Wake::ReaderGone
    } else {
        let first = readable.iter().position(|event| event.contains(PollFlags::IN));
        // None: a terminal that hung up. No key will come, and poll would
        // report it at once for ever.
        first.map_or(Wake::ReaderGone, |index| Wake::Readable(Token(index)))
    }
}

fn timespec(time: Duration) -> Timespec {
    // A deadline beyond 2^63 s never comes.
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_deadline_passes_a_descriptor_is_readable_and_a_signal_comes_first() {
        let mut wait = WaitUntil::new(Signals::ending().unwrap()).for_reader();
        let (silent, (ours, mut theirs)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let (_, token) = (wait.add(&silent.0).unwrap(), wait.add(&ours).unwrap());
        assert_eq!(wait.until(Instant::now()).unwrap(), Wake::Deadline);
        let far = Instant::now() + Duration::from_secs(3600);
        theirs.write_all(b"x").unwrap();
        assert_eq!(wait.until(far).unwrap(), Wake::Readable(token));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(wait.until(far).unwrap(), Wake::Signal);
    }

    #[test]
    fn a_terminal_that_hung_up_has_no_reader() {
        let quiet = PollFlags::empty();
        assert_eq!(wake(&[quiet, PollFlags::HUP], 1), Wake::ReaderGone);
        assert_eq!(wake(&[quiet, PollFlags::IN, PollFlags::ERR], 1), Wake::ReaderGone);
    }
}
