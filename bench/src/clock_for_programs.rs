//! The clock for programs: what a read costs, and how far it wanders from
//! CLOCK_MONOTONIC, quanta beside it.

use std::time::Duration;

use clock::{Clock, Instant, Source, Status};
use pvclock::counter::{Counter, Tsc};

use crate::judge;
use crate::rounds::{self, CALLS, Contender};
use crate::vdso;

/// How long the clocks read before their costs are compared: the TSC is
/// measured by then.
const SETTLING: Duration = Duration::from_millis(300);
/// Between two comparisons with CLOCK_MONOTONIC.
const PAUSE: Duration = Duration::from_millis(1);
/// The reads that are looked at for what seeing to the clock costs, and how
/// long each waits: until three quarters of the newest segment are over.
const DUE_READS: usize = 101;
const UNTIL_DUE: Duration = Duration::from_micros(15_500);
/// Lines that a run prints.
const LINES: u32 = 10;
/// How far the clock may be from CLOCK_MONOTONIC beyond the reads.
const BAR_NS: f64 = 1_000.0;

const RDTSC: &str = "rdtsc, bare";
const OURS: &str = "clock Instant::now";
const QUANTA: &str = "quanta Clock::now";
const VDSO: &str = "clock_gettime(MONOTONIC)";

/// What is asked for.
pub(crate) struct Options {
    rounds: u32,
    duration: Duration,
}

impl Options {
    pub(crate) fn parse(mut words: &[&str]) -> Option<Self> {
        let mut options = Self { rounds: 2_000, duration: Duration::from_secs(10) };
        loop {
            words = match words {
                [] => return Some(options),
                ["--rounds", rounds, rest @ ..] => {
                    options.rounds = rounds.parse().ok().filter(|&rounds| rounds > 0)?;
                    rest
                }
                ["--duration", duration, rest @ ..] => {
                    options.duration = parse_duration(duration)?;
                    rest
                }
                _ => return None,
            }
        }
    }
}

/// `90s`, `10m` or `1h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        _ => return None,
    };
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(Duration::from_secs(count.checked_mul(seconds)?)).filter(|duration| !duration.is_zero())
}

/// Runs it; whether every bar is met.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let quanta = quanta::Clock::new();
    let settled = Instant::now() + SETTLING;
    while Instant::now() < settled {}
    let status = clock::shared().status();
    let Source::Tsc { hz } = status.source else {
        return Err(format!("the clock does not count the TSC: {status:?}"));
    };
    println!("TSC {:.3} MHz by the clock's measure", hz as f64 / 1e6);
    let met = costs(options.rounds, &quanta);
    println!(
        "\nthe read that sees to the next segment: {} ns, median of {DUE_READS}",
        due_read_ns(hz)
    );
    Ok(wander(options.duration, &quanta) & met)
}

fn costs(rounds: u32, quanta: &quanta::Clock) -> bool {
    let own = Clock::new();
    let mut contenders = [
        Contender::new(RDTSC, || Tsc.read()),
        Contender::new(OURS, Instant::now),
        Contender::new("clock Clock::now, one's own", || own.now()),
        Contender::new("clock Clock::now_ordered", || clock::shared().now_ordered()),
        Contender::new("clock SystemTime::now", clock::SystemTime::now),
        Contender::new("clock Clock::maintain, nothing due", || clock::shared().maintain()),
        Contender::new(QUANTA, || quanta.now()),
        Contender::new("std Instant::now", std::time::Instant::now),
        Contender::new(VDSO, vdso::monotonic_ns),
    ];
    rounds::run(&mut contenders, rounds);
    println!("{rounds} interleaved rounds of {CALLS} calls; ns a call\n");
    println!("{:<36} {:>8} {:>8}", "", "min", "median");
    for row in &contenders {
        println!("{:<36} {:>8.2} {:>8.2}", row.name, row.min_ns(), row.median_ns());
    }
    println!();
    let min_of = |name: &str| {
        contenders.iter().find(|row| row.name == name).map_or(f64::NAN, Contender::min_ns)
    };
    let met = judge(&format!("{OURS} / {QUANTA}"), min_of(OURS) / min_of(QUANTA), 1.05, "");
    judge(&format!("{OURS} / {VDSO}"), min_of(OURS) / min_of(VDSO), 0.60, "") & met
}

/// What a read takes that finds the next segment due.
fn due_read_ns(tsc_hz: u64) -> u64 {
    let mut took: Vec<u64> = (0..DUE_READS)
        .map(|_| {
            let own = Clock::new();
            while own.status().source == Source::Measuring {
                own.now();
            }
            // The first segment begins about here; spinning, for a CPU that
            // slept would be what is measured.
            let start = std::time::Instant::now();
            while start.elapsed() < UNTIL_DUE {}
            let before = Tsc.read_ordered();
            own.now();
            Tsc.read_ordered() - before
        })
        .collect();
    took.sort_unstable();
    took[DUE_READS / 2] * 1_000_000_000 / tsc_hz
}

/// How far a clock was from CLOCK_MONOTONIC: beyond the two reads of that
/// around it, so 0 when it is between them.
#[derive(Default)]
struct Away {
    beyond_ns: Vec<i64>,
    most_ns: i64,
}

impl Away {
    fn take(&mut self, before: i64, ours: i64, after: i64) {
        let beyond = if ours < before { ours - before } else { (ours - after).max(0) };
        self.beyond_ns.push(beyond);
        if beyond.abs() > self.most_ns.abs() {
            self.most_ns = beyond;
        }
    }

    /// The middle of what was taken since the last call.
    fn median_ns(&mut self) -> i64 {
        self.beyond_ns.sort_unstable();
        let median = self.beyond_ns.get(self.beyond_ns.len() / 2).copied().unwrap_or_default();
        self.beyond_ns.clear();
        median
    }
}

/// The clocks beside CLOCK_MONOTONIC, for as long as asked.
fn wander(duration: Duration, quanta: &quanta::Clock) -> bool {
    println!("\nbeyond CLOCK_MONOTONIC read before and after, ns; 0 is between the two\n");
    println!("{:>8} {:>14} {:>14} {:>14}", "after", "clock, median", "farthest", "quanta, median");
    let start = vdso::monotonic_ns();
    let (raw_start, mut ours, mut theirs) = (quanta.raw(), Away::default(), Away::default());
    let each = duration / LINES;
    for line in 1..=LINES {
        let end = start + (each * line).as_nanos() as i64;
        while vdso::monotonic_ns() < end {
            let before = vdso::monotonic_ns();
            let now = clock::shared().now_ordered();
            ours.take(before, now.as_nanos().cast_signed(), vdso::monotonic_ns());
            let before = vdso::monotonic_ns();
            let counted = quanta.delta_as_nanos(raw_start, quanta.raw());
            theirs.take(before, start + counted.cast_signed(), vdso::monotonic_ns());
            std::thread::sleep(PAUSE);
        }
        println!(
            "{:>6} s {:>14} {:>14} {:>14}",
            (each * line).as_secs(),
            ours.median_ns(),
            ours.most_ns,
            theirs.median_ns(),
        );
    }
    report(&clock::shared().status());
    println!();
    judge("clock, farthest from CLOCK_MONOTONIC", ours.most_ns.abs() as f64 / BAR_NS, 1.0, " µs")
}

fn report(status: &Status) {
    println!(
        "\n{} disruptions; last compared, at most {} ns away; of the time of day: {}",
        status.disruptions,
        status.tracking.as_nanos(),
        status.error.map_or("nobody vouches for it".into(), |error| format!("± {error:?}")),
    );
}
