use proptest::prelude::*;

use super::*;
use crate::wire::hosttime::frame::{FrameLeap, FrameScale, HostClock};
use crate::wire::hosttime::measured::EARLIEST_NS;

const MS: u64 = 1_000_000;
const START: u64 = EARLIEST_NS + 1_000_000_000 * MS;

const UTC: HostClock = HostClock {
    bound_ns: Some(1_000),
    scale: FrameScale::Utc,
    leap: FrameLeap::None,
    is_smeared: false,
    tai_offset_s: Some(37),
};

/// A guest whose clock is behind the host's, and the channel between them.
struct Channel {
    guest: GuestExchange,
    monotonic_ns: u64,
    behind_ns: u64,
    /// A request takes this, the host this, and the answer this.
    takes_ns: [u64; 3],
    clock: HostClock,
    nonce: u64,
}

impl Channel {
    fn new(behind_ns: u64, takes_ns: [u64; 3]) -> Self {
        let (guest, clock) = (GuestExchange::default(), UTC);
        Self { guest, monotonic_ns: 77_000 * MS, behind_ns, takes_ns, clock, nonce: 9 }
    }

    fn now(&self) -> ClockPair {
        let (monotonic_ns, true_ns) = (self.monotonic_ns, START + self.monotonic_ns);
        ClockPair { monotonic_ns, realtime_ns: true_ns - self.behind_ns }
    }

    /// The request that is due.
    fn request(&mut self) -> Option<(u64, u64)> {
        self.nonce += 1;
        match self.guest.next(self.now(), || self.nonce).unwrap()? {
            HostTimeFrame::Request { nonce, sent_ns } => Some((nonce, sent_ns)),
            other => panic!("{other:?}"),
        }
    }

    /// Answers it.
    fn answer(&mut self, request: (u64, u64)) -> TimeAnswer {
        let [there_ns, at_host_ns, back_ns] = self.takes_ns;
        let received_ns = START + self.monotonic_ns + there_ns;
        self.monotonic_ns += there_ns + at_host_ns + back_ns;
        let times = (received_ns, received_ns + at_host_ns);
        TimeAnswer::new(request, Reason::Periodic, times, self.clock)
    }

    fn hear(&mut self, answer: TimeAnswer) -> Result<Heard, Refused> {
        self.guest.receive(&HostTimeFrame::Answer(answer), self.now())
    }

    /// A whole exchange.
    fn exchange(&mut self) -> Result<OffsetBound, Refused> {
        self.monotonic_ns += MIN_INTERVAL_NS;
        let notice = HostTimeFrame::Notice(Reason::Resumed);
        assert_eq!(self.guest.receive(&notice, self.now()), Ok(Heard::Notice(Reason::Resumed)));
        for _ in 0..=ROUNDS {
            let request = self.request().expect("an exchange is under way");
            let answer = self.answer(request);
            if let Heard::Offset(offset) = self.hear(answer)? {
                return Ok(offset);
            }
        }
        panic!("it never ends");
    }
}

proptest! {
    /// Whichever way was the slow one.
    #[test]
    fn the_truth_is_within_the_bound(
        behind_ns in 0..900_000 * MS,
        takes_ns in [0..100 * MS, 0..100 * MS, 0..100 * MS],
    ) {
        let mut channel = Channel::new(behind_ns, takes_ns);
        let offset = channel.exchange().unwrap();
        let wrong_ns = (i128::from(offset.offset_ns) - i128::from(behind_ns)).unsigned_abs();
        prop_assert!(wrong_ns <= u128::from(offset.bound_ns), "{offset:?}");
        let delay_ns = takes_ns[0] + takes_ns[2];
        let widest_ns = delay_ns / 2 + 1_001 + takes_ns.iter().sum::<u64>() / 1000;
        prop_assert!(offset.bound_ns <= widest_ns, "{offset:?} {widest_ns}");
        prop_assert_eq!(offset.at_monotonic_ns, channel.monotonic_ns);
    }

    #[test]
    fn whatever_is_answered_nothing_panics(times in any::<[u64; 2]>(), now in any::<[u64; 2]>(),
                                           bound_ns: Option<u64>, tai_offset_s: Option<i16>) {
        let mut channel = Channel::new(0, [0; 3]);
        channel.guest.receive(&HostTimeFrame::Notice(Reason::Periodic), channel.now()).unwrap();
        let request = channel.request().unwrap();
        let clock = HostClock { bound_ns, tai_offset_s, scale: FrameScale::Tai, ..UTC };
        let answer = TimeAnswer::new(request, Reason::Periodic, (times[0], times[1]), clock);
        let [monotonic_ns, realtime_ns] = now;
        let now = ClockPair { monotonic_ns, realtime_ns };
        let _ = channel.guest.receive(&HostTimeFrame::Answer(answer), now);
        let _ = channel.guest.next(now, || 1);
    }
}

#[test]
fn a_tai_clock_and_a_smeared_leap_second() {
    let mut channel = Channel::new(0, [0; 3]);
    channel.clock = HostClock { scale: FrameScale::Tai, ..UTC };
    assert_eq!(channel.exchange().unwrap().offset_ns, -37_000_000_000);
    channel.clock.tai_offset_s = None;
    assert_eq!(channel.exchange(), Err(Refused::NoTaiOffset));
    channel.clock = HostClock { is_smeared: true, ..UTC };
    assert_eq!(channel.exchange().unwrap().bound_ns, 1_000);
    channel.clock.leap = FrameLeap::Inserted;
    assert_eq!(channel.exchange().unwrap().bound_ns, 500_001_000);
    channel.clock.bound_ns = None;
    assert_eq!(channel.exchange(), Err(Refused::Unbounded));
}

#[test]
fn a_replay_a_strangers_answer_and_one_that_nobody_asked_for_are_refused() {
    let mut channel = Channel::new(0, [MS, 0, MS]);
    let unasked = TimeAnswer::new((1, 1), Reason::Periodic, (START, START), UTC);
    assert_eq!(channel.hear(unasked), Err(Refused::NotAsked { nonce: 1 }));
    channel.guest.receive(&HostTimeFrame::Notice(Reason::Periodic), channel.now()).unwrap();
    let request = channel.request().unwrap();
    let answer = channel.answer(request);
    for stranger in [
        TimeAnswer { nonce: request.0 ^ 1, ..answer },
        TimeAnswer { request_sent_ns: request.1 + 1, ..answer },
    ] {
        assert!(matches!(channel.hear(stranger), Err(Refused::NotAsked { .. })));
    }
    // They ended nothing.
    assert_eq!(channel.hear(answer), Ok(Heard::Answer));
    assert_eq!(channel.hear(answer), Err(Refused::NotAsked { nonce: request.0 }));
    let asked = HostTimeFrame::Request { nonce: 1, sent_ns: 1 };
    assert_eq!(channel.guest.receive(&asked, channel.now()), Err(Refused::NotAHost));
}

#[test]
fn a_host_in_the_past_or_one_that_contradicts_itself_is_refused() {
    let mut channel = Channel::new(0, [MS; 3]);
    let of = |channel: &mut Channel, change: fn(&mut TimeAnswer)| {
        channel.monotonic_ns += MIN_INTERVAL_NS;
        channel.guest.receive(&HostTimeFrame::Notice(Reason::Periodic), channel.now()).unwrap();
        let request = channel.request().unwrap();
        let mut answer = channel.answer(request);
        change(&mut answer);
        let heard = channel.hear(answer);
        (heard, channel.request().is_some())
    };
    let late = of(&mut channel, |answer| answer.sent_ns += 3 * MS);
    assert!(matches!(late, (Err(Refused::Impossible { waited_ns: 3_000_000, .. }), false)));
    let back = of(&mut channel, |answer| answer.sent_ns = answer.received_ns - 1);
    assert!(matches!(back, (Err(Refused::Impossible { .. }), false)));
    let unset = of(&mut channel, |answer| (answer.received_ns, answer.sent_ns) = (5, 5));
    assert_eq!(unset, (Err(Refused::HostUnset { shown_ns: 5 }), false));
    // An hour between two answers of one exchange.
    let (heard, goes_on) = of(&mut channel, |_| {});
    assert_eq!((heard, goes_on), (Ok(Heard::Answer), true));
    let mut answer = channel.answer((channel.nonce, channel.now().realtime_ns));
    answer.sent_ns -= 3_600_000 * MS;
    answer.received_ns -= 3_600_000 * MS;
    assert!(matches!(channel.hear(answer), Err(Refused::Contradiction { .. })));
    assert_eq!(channel.request(), None);
    // Our own clock was set meanwhile.
    assert_eq!(of(&mut channel, |_| {}), (Ok(Heard::Answer), true));
    let answer = channel.answer((channel.nonce, channel.now().realtime_ns));
    channel.behind_ns = 60_000 * MS;
    assert!(matches!(channel.hear(answer), Err(Refused::Contradiction { .. })));
}

/// The host gives one notice after a restore; the guest's clock is stepped by its RTC while it
/// asks.
#[test]
fn an_exchange_during_which_the_clock_is_set_begins_anew_without_a_notice() {
    let mut channel = Channel::new(3_000 * MS, [MS; 3]);
    let notice = HostTimeFrame::Notice(Reason::Restored);
    channel.guest.receive(&notice, channel.now()).unwrap();
    let request = channel.request().unwrap();
    let answer = channel.answer(request);
    assert_eq!(channel.hear(answer), Ok(Heard::Answer));
    let request = channel.request().unwrap();
    let answer = channel.answer(request);
    channel.behind_ns = 300 * MS;
    assert!(matches!(channel.hear(answer), Err(Refused::Contradiction { .. })));
    assert_eq!(channel.request(), None, "not before {MIN_INTERVAL_NS} ns");
    channel.monotonic_ns += MIN_INTERVAL_NS;
    let offset = (0..ROUNDS).find_map(|_| {
        let request = channel.request().expect("asks by itself");
        let answer = channel.answer(request);
        match channel.hear(answer) {
            Ok(Heard::Offset(offset)) => Some(offset),
            heard => heard.map(|_| None).unwrap(),
        }
    });
    assert_eq!(offset.map(|offset| offset.offset_ns), Some(300 * MS as i64));
    channel.monotonic_ns += MIN_INTERVAL_NS;
    assert_eq!(channel.request(), None, "it has what it wanted");
}

/// A path that is slow for good, and a clock that is set all the time.
#[test]
fn disturbed_exchanges_end_after_their_retries() {
    let mut channel = Channel::new(0, [TIMEOUT_NS + 1, 0, 0]);
    let notice = HostTimeFrame::Notice(Reason::Restored);
    channel.guest.receive(&notice, channel.now()).unwrap();
    let mut refused = 0;
    while let Some(request) = channel.request() {
        let answer = channel.answer(request);
        assert!(matches!(channel.hear(answer), Err(Refused::Slow { .. })));
        refused += 1;
    }
    assert_eq!(refused, 1 + RETRIES);
}

#[test]
fn a_host_that_hangs_or_is_slow_is_given_up() {
    let mut channel = Channel::new(0, [LONG, 0, 0]);
    const LONG: u64 = TIMEOUT_NS + 1;
    assert_eq!(channel.exchange(), Err(Refused::Slow { took_ns: LONG }));
    channel.guest.receive(&HostTimeFrame::Notice(Reason::Periodic), channel.now()).unwrap();
    channel.request().unwrap();
    channel.monotonic_ns += TIMEOUT_NS;
    assert_eq!(channel.request(), None);
    channel.monotonic_ns += 1;
    let given_up = channel.guest.next(channel.now(), || 1);
    assert_eq!(given_up, Err(Refused::NoAnswer { limit_ns: TIMEOUT_NS }));
    assert_eq!(channel.request(), None);
}

#[test]
fn a_flood_of_notices_begins_four_exchanges_a_second() {
    let mut channel = Channel::new(0, [0; 3]);
    let mut requests = 0;
    for _ in 0..10_000 {
        channel.monotonic_ns += MS / 10;
        channel.guest.receive(&HostTimeFrame::Notice(Reason::Resumed), channel.now()).unwrap();
        if let Some(request) = channel.request() {
            requests += 1;
            let answer = channel.answer(request);
            channel.hear(answer).unwrap();
        }
    }
    assert_eq!(requests, 4 * ROUNDS);
}
