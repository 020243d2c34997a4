//! Waiting for the next look, and for what comes before it.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// It is time for the next look.
    Time,
    /// A key was pressed.
    Key,
    /// The alarm went off before its time.
    Alarm,
    /// A signal asks to end.
    Signal,
    /// Whoever read the output, or pressed the keys, has gone.
    ReaderGone,
}

/// Waits for time, keys and signals.
pub struct Waiting {
    signals: UnixStream,
    is_for_reader: bool,
}

impl Waiting {
    /// From now on the first SIGINT, SIGTERM or SIGHUP ends a wait; another
    /// one ends the program, as it may hang in writing to who does not read.
    ///
    /// # Errors
    /// The system has no socket pair or takes no handler.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { is_for_reader: true, ..Self::for_signals()? })
    }

    /// As [`Waiting::new`], but that whoever reads the output may go.
    ///
    /// # Errors
    /// As there.
    pub fn for_signals() -> std::io::Result<Self> {
        let (signals, handler) = UnixStream::pair()?;
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Handlers run in this order: the first signal finds it unset.
            flag::register_conditional_default(signal, Arc::clone(&again))?;
            flag::register(signal, Arc::clone(&again))?;
            pipe::register(signal, handler.try_clone()?)?;
        }
        Ok(Self { signals, is_for_reader: false })
    }

    /// Waits until `deadline`, for keys too where there are `keys`.
    ///
    /// # Errors
    /// Those of poll.
    pub fn until(&self, deadline: Instant, keys: Option<BorrowedFd<'_>>) -> Result<Woken, Errno> {
        self.until_alarm(deadline, keys, None)
    }

    /// As [`Waiting::until`], or until `alarm` can be read.
    ///
    /// # Errors
    /// Those of poll.
    pub fn until_alarm(
        &self,
        deadline: Instant,
        keys: Option<BorrowedFd<'_>>,
        alarm: Option<BorrowedFd<'_>>,
    ) -> Result<Woken, Errno> {
        let stdout = std::io::stdout();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut watched = vec![PollFd::new(&self.signals, PollFlags::IN)];
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let keys_at = watched.len();
            watched.extend(keys.map(readable));
            let alarm_at = watched.len();
            watched.extend(alarm.map(readable));
            let reader_at = watched.len();
            // Nothing is asked for: a pipe without a reader tells anyway.
            let reader = PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty());
            watched.extend(self.is_for_reader.then_some(reader));
            match poll(&mut watched, Some(&timespec(left))) {
                // The handler has written why.
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
                Ok(0) => return Ok(Woken::Time),
                Ok(_) => {}
            }
            let told =
                |index: usize| watched.get(index).map_or(PollFlags::empty(), PollFd::revents);
            return Ok(match () {
                () if !told(0).is_empty() => Woken::Signal,
                () if !told(reader_at).is_empty() => Woken::ReaderGone,
                () if told(alarm_at).contains(PollFlags::IN) => Woken::Alarm,
                () if told(keys_at).contains(PollFlags::IN) => Woken::Key,
                // A terminal that hung up: no key will come, and poll would
                // say so at once for ever.
                () => Woken::ReaderGone,
            });
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    // A look a nanosecond late is no matter; one at 2^63 s never comes.
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_comes_and_a_signal_comes_first() {
        let waiting = Waiting::new().unwrap();
        assert_eq!(waiting.until(Instant::now(), None).unwrap(), Woken::Time);
        signal_hook::low_level::raise(SIGTERM).unwrap();
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(waiting.until(far, None).unwrap(), Woken::Signal);
    }
}
