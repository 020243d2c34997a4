//! The host's end of a writer's port (`bin/guest-clock/stamps.rs`): this system's time goes in,
//! time stamps come out, and each is held to this system's clock.
//!
//! A stamp was read after the host's time that it names was sent, and before it arrived here. Both
//! are times of this system's clock, so what is shown of a stamp does not depend on how long any
//! part of the way took: a slow system leaves more stamps open, and accuses none.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::deeds::ticks::{now_ns, read_lines};
use crate::wire::connect;

/// How often the host's time is sent: less than the bound that the stamps are held to.
const EVERY: Duration = Duration::from_millis(2);

/// One time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) number: u64,
    pub(super) clock_ns: i64,
    /// The last of this system's times that the writer had.
    token_ns: i64,
    /// The error bound that was published when it was read, if one was.
    bound_ns: Option<i64>,
    /// Whether that is of after the last restore, by the VMClock page's marker.
    is_current: bool,
    /// When it arrived, by this system's clock.
    pub(super) at_ns: i64,
}

/// `S 3 4 8 16 1 30`: the number, the clock, the host's time, the bound (0 without one), whether it
/// is current, and all of them by exclusive or.
fn parse(line: &str, at_ns: i64) -> Option<Stamp> {
    let mut numbers = line.strip_prefix("S ")?.split(' ').map(|word| word.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let [number, clock, token, bound, current, check] =
        [next()?, next()?, next()?, next()?, next()?, next()?];
    let ns = |ns: u64| i64::try_from(ns).ok();
    let (clock_ns, token_ns) = (ns(clock)?, ns(token)?);
    let bound_ns = Some(ns(bound)?).filter(|bound_ns| *bound_ns > 0);
    let stamp = Stamp { number, clock_ns, token_ns, bound_ns, is_current: current == 1, at_ns };
    (number ^ clock ^ token ^ bound ^ current == check).then_some(stamp)
}

/// A writer in the machine, seen from here.
#[derive(Debug)]
pub(super) struct Writer {
    receiver: Receiver<Stamp>,
    sends: Arc<AtomicBool>,
}

impl Writer {
    /// At the other end of its port. Both threads end with the connection, which ends with QEMU.
    pub(super) fn connect(socket: &Path) -> Result<Self, String> {
        let stream = connect(socket)?;
        let writes = stream.try_clone().map_err(|error| error.to_string())?;
        let (sender, receiver) = mpsc::channel();
        let sends = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&sends);
        thread::spawn(move || send_time(writes, &wanted));
        // A line that a restore cut is none. What is missing then shows in the numbers.
        let receive = move |line: &str, at_ns| {
            parse(line, at_ns).is_none_or(|stamp| sender.send(stamp).is_ok())
        };
        thread::spawn(move || read_lines(stream, receive));
        Ok(Self { receiver, sends })
    }

    /// Whether this system's time is sent.
    pub(super) fn send(&self, sends: bool) {
        self.sends.store(sends, Ordering::Relaxed);
    }

    /// What has arrived since this was last asked.
    pub(super) fn take(&self) -> Vec<Stamp> {
        self.receiver.try_iter().collect()
    }

    /// The last stamp, once none has come for so long.
    pub(super) fn drain(&self, quiet: Duration) -> Result<Stamp, String> {
        const MOST: Duration = Duration::from_secs(5);
        let (begun, mut last) = (Instant::now(), None);
        while let Some(stamp) = self.next(quiet) {
            if begun.elapsed() > MOST {
                return Err(format!("stamps still come {MOST:?} after the gate closed"));
            }
            last = Some(stamp);
        }
        last.ok_or_else(|| "no stamp before the gate closed".to_owned())
    }

    /// The next stamp.
    pub(super) fn next(&self, within: Duration) -> Option<Stamp> {
        self.receiver.recv_timeout(within).ok()
    }
}

fn send_time(mut to: UnixStream, wanted: &AtomicBool) {
    loop {
        if wanted.load(Ordering::Relaxed) {
            let Ok(ns) = u64::try_from(now_ns()) else { return };
            if to.write_all(format!("T {ns} {}\n", !ns).as_bytes()).is_err() {
                return;
            }
        }
        sleep(EVERY);
    }
}

/// Without what the machine wrote before it was put back, and which arrived later: the numbers of a
/// restored writer begin again where the snapshot was taken.
pub(super) fn restored(mut stamps: Vec<Stamp>) -> Vec<Stamp> {
    let last = stamps.windows(2).rposition(|pair| pair[1].number < pair[0].number);
    stamps.split_off(last.map_or(0, |last| last + 1))
}

/// What the stamps of one writer show after a restore.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// Certainly off by at most the bound, and by more.
    pub(super) right: usize,
    pub(super) wrong: usize,
    /// Known too roughly for either.
    pub(super) open: usize,
    /// Written, by their numbers, and not received.
    pub(super) missing: u64,
    /// By how much the worst of them was off at least.
    pub(super) worst_ns: i64,
    /// With a published bound that is current, and known better than it; with one that it is
    /// certainly off by more than; and with one from before the restore that it is.
    pub(super) bounded: usize,
    pub(super) violated: usize,
    pub(super) stale: usize,
    /// How roughly the worst known of them is known, once the first of them had passed.
    pub(super) roughly_ns: i64,
}

impl Shown {
    /// Of stamps that arrived after the machine was resumed, in their order. One that was
    /// `frozen` since before the snapshot has read the clock at most once without writing it:
    /// every stamp but the first was read after the resume.
    pub(super) fn by(stamps: &[Stamp], bound_ns: i64, frozen_until_ns: Option<i64>) -> Self {
        let numbers = stamps.first().zip(stamps.last());
        let written =
            numbers.map_or(0, |(first, last)| last.number.saturating_sub(first.number) + 1);
        let missing = written.saturating_sub(stamps.len() as u64);
        let mut shown = Self { missing, ..Self::default() };
        for (index, stamp) in stamps.iter().enumerate() {
            let resumed_ns = frozen_until_ns.filter(|_| index > 0).unwrap_or(i64::MIN);
            let earliest_ns = stamp.token_ns.max(resumed_ns);
            // How far ahead of this system's clock it was at least, and at most.
            let least_ns = stamp.clock_ns - stamp.at_ns;
            let most_ns = stamp.clock_ns - earliest_ns;
            let off_ns = least_ns.max(0) + most_ns.min(0);
            if off_ns.abs() > shown.worst_ns.abs() {
                shown.worst_ns = off_ns;
            }
            if off_ns.abs() > bound_ns {
                shown.wrong += 1;
            } else if least_ns >= -bound_ns && most_ns <= bound_ns {
                shown.right += 1;
            } else {
                shown.open += 1;
            }
            if let Some(bound_ns) = stamp.bound_ns {
                let is_violated = off_ns.abs() > bound_ns;
                let is_known = stamp.at_ns - earliest_ns <= bound_ns;
                shown.bounded += usize::from(stamp.is_current && is_known);
                shown.violated += usize::from(stamp.is_current && is_violated);
                shown.stale += usize::from(!stamp.is_current && is_violated);
            }
            if index > 0 {
                shown.roughly_ns = shown.roughly_ns.max(stamp.at_ns - earliest_ns);
            }
        }
        shown
    }

    pub(super) fn count(&self) -> usize {
        self.right + self.wrong + self.open
    }

    /// Of this restore and others.
    pub(super) fn and(self, other: Self) -> Self {
        let worse = self.worst_ns.abs() >= other.worst_ns.abs();
        Self {
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            open: self.open + other.open,
            missing: self.missing + other.missing,
            worst_ns: if worse { self.worst_ns } else { other.worst_ns },
            bounded: self.bounded + other.bounded,
            violated: self.violated + other.violated,
            stale: self.stale + other.stale,
            roughly_ns: self.roughly_ns.max(other.roughly_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const BOUND: i64 = 10 * MS;

    fn stamp(clock_ms: i64, token_ms: i64, at_ms: i64) -> Stamp {
        let [clock_ns, token_ns, at_ns] = [clock_ms, token_ms, at_ms].map(|ms| ms * MS);
        let number = at_ms as u64;
        Stamp { number, clock_ns, token_ns, bound_ns: None, is_current: false, at_ns }
    }

    #[test]
    fn what_was_written_before_the_restore_shows_nothing_of_it() {
        let numbered = |numbers: &[u64]| -> Vec<Stamp> {
            numbers.iter().map(|&number| Stamp { number, ..stamp(0, 0, 0) }).collect()
        };
        assert_eq!(restored(numbered(&[14, 15, 9, 10, 12])), numbered(&[9, 10, 12]));
        assert_eq!(restored(numbered(&[9, 10])), numbered(&[9, 10]));
        assert_eq!(restored(Vec::new()), []);
    }

    #[test]
    fn a_cut_line_is_none() {
        let stamp = Stamp {
            number: 3,
            clock_ns: 4,
            token_ns: 8,
            bound_ns: Some(16),
            is_current: true,
            at_ns: 9,
        };
        assert_eq!(parse("S 3 4 8 16 1 30", 9), Some(stamp));
        let unbounded = Stamp { bound_ns: None, is_current: false, ..stamp };
        assert_eq!(parse("S 3 4 8 0 0 15", 9), Some(unbounded));
        for cut in ["S 3 4 8 16 1", "S 3 4 8 16 1 3", "3 4 8 16 1 30", "S 3 4S 4 4 8 8", ""] {
            assert_eq!(parse(cut, 9), None, "{cut}");
        }
    }

    /// Read between 1000 and 1004, so certainly 8 ahead where it shows 1012.
    #[test]
    fn a_published_bound_is_held_to_the_same() {
        let by = |bound_ms: i64, is_current| {
            let bound_ns = Some(bound_ms * MS);
            let stamp = Stamp { bound_ns, is_current, ..stamp(1012, 1000, 1004) };
            let shown = Shown::by(&[stamp], BOUND, None);
            (shown.bounded, shown.violated, shown.stale)
        };
        assert_eq!(by(8, true), (1, 0, 0));
        assert_eq!(by(7, true), (1, 1, 0));
        assert_eq!((by(7, false), by(8, false)), ((0, 0, 1), (0, 0, 0)));
        let none = Shown::by(&[stamp(1012, 1000, 1004)], BOUND, None);
        assert_eq!((none.bounded, none.violated, none.stale), (0, 0, 0));
    }

    #[test]
    fn a_stamp_is_held_to_what_is_known_of_when_it_was_read() {
        let by = |clock_ms, token_ms, at_ms| {
            let shown = Shown::by(&[stamp(clock_ms, token_ms, at_ms)], BOUND, None);
            (shown.right, shown.wrong, shown.open, shown.worst_ns / MS)
        };
        // Read between 1000 and 1004.
        assert_eq!(by(1002, 1000, 1004), (1, 0, 0, 0));
        assert_eq!(by(1010, 1000, 1004), (1, 0, 0, 6), "10 ahead at most");
        assert_eq!(by(1012, 1000, 1004), (0, 0, 1, 8), "8 to 12 ahead");
        assert_eq!(by(1015, 1000, 1004), (0, 1, 0, 11));
        assert_eq!(by(989, 1000, 1004), (0, 1, 0, -11));
        // A way that took long accuses nothing: between 1000 and 4000.
        assert_eq!(by(1002, 1000, 4000), (0, 0, 1, 0));
        assert_eq!(by(980, 1000, 4000), (0, 1, 0, -20));
    }

    #[test]
    fn a_frozen_writer_read_one_stamp_at_most_before_the_snapshot() {
        // Resumed at 9000. The tokens are of before the snapshot, and so is the first stamp.
        let stamps = [stamp(1001, 1000, 9050), stamp(9050, 1000, 9052), stamp(1003, 1000, 9053)];
        let shown = Shown::by(&stamps, BOUND, Some(9000 * MS));
        assert_eq!((shown.right, shown.wrong, shown.open, shown.missing), (0, 1, 2, 1));
        assert_eq!((shown.worst_ns, shown.roughly_ns), (-7997 * MS, 53 * MS));
        let tokens_alone = Shown::by(&stamps, BOUND, None);
        assert_eq!((tokens_alone.wrong, tokens_alone.open), (0, 3));
        let both = shown.and(tokens_alone);
        assert_eq!((both.count(), both.wrong, both.worst_ns), (6, 1, -7997 * MS));
    }
}
