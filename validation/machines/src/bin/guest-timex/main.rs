//! Runs random programs of `adjtimex` and `clock_settime` in a disposable guest,
//! and prints all that it did and saw: the transcript that is held against the
//! model of the crate `kernel-clock`. One line each:
//!
//! | line | numbers |
//! | --- | --- |
//! | `kernel` | its release, its HZ |
//! | `program` | its seed |
//! | `real`, `mono`, `boot`, `tai` | RAW, that clock, RAW |
//! | `set` | RAW, what was set, the error, RAW |
//! | `adjust` | RAW, the fields in, the result, the fields out, RAW |
//! | `tick` | RAW before and after a tick came, MONOTONIC_COARSE after it |
//! | `late` | something was delayed, and what follows cannot be judged |
//!
//! Times are ns. The fields are those of `kernel_clock::Timex`, in its order; an
//! error is negative, as the kernel's.
//!
//! # Invariants
//! 1. `adjtimex` reads and fills one `timex`, and keeps nothing; ours is a live
//!    local. All zeroes are a valid `timex` (`man 2 adjtimex`).
#![allow(unsafe_code)]

mod fields;

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs, mem};

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime_dynamic, clock_settime};

use fields::{Fields, NS_PER_S, Random, bits};

/// A parameter on the command line of a kernel whose clock may be set.
const DISPOSABLE: &str = "parachron.disposable";

const USAGE: &str = "usage: guest-timex SEED PROGRAMS HZ";

/// What a call may take that was not delayed, ns.
const PROMPT: i64 = 1_000_000;

/// How long before a tick nothing is done any more but to watch for it, ns.
const WATCH: i64 = 1_500_000;

/// How long before a tick the watch is by spinning, ns.
const SPIN: i64 = 400_000;

fn main() -> ExitCode {
    let words: Vec<u64> = env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let &[seed, programs, hz] = words.as_slice() else {
        eprintln!("guest-timex: {USAGE}");
        return ExitCode::from(2);
    };
    require_disposable();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let head = writeln!(out, "kernel {} {hz}", release.trim());
    let tick = NS_PER_S / hz.clamp(1, 10_000).cast_signed();
    let run = (seed..seed.saturating_add(programs)).try_for_each(|seed| {
        let mut program = Program::new(seed, tick);
        program.run();
        out.write_all(program.text.as_bytes())
    });
    match head.and(run).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends the program where the clock is not the guest's. Asked before each change:
/// where user-mode Linux is killed, its programs may go on in the machine outside.
fn require_disposable() {
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !command_line.split_whitespace().any(|word| word == DISPOSABLE) {
        eprintln!("guest-timex: the kernel was not started with {DISPOSABLE}");
        std::process::exit(2);
    }
}

/// A clock, ns; 0 if the kernel has none of that kind.
fn read(clock: DynamicClockId<'_>) -> i64 {
    clock_gettime_dynamic(clock).map_or(0, |time| time.tv_sec * NS_PER_S + time.tv_nsec)
}

fn raw() -> i64 {
    read(DynamicClockId::Known(ClockId::MonotonicRaw))
}

fn coarse() -> i64 {
    read(DynamicClockId::Known(ClockId::MonotonicCoarse))
}

/// A program that runs.
struct Program {
    random: Random,
    /// Length of a tick, ns.
    tick: i64,
    /// RAW when the last tick was seen, the coarse clock since, and RAW before
    /// that was last read.
    ticked: i64,
    coarse: i64,
    unchanged: i64,
    is_late: bool,
    text: String,
}

impl Program {
    fn new(seed: u64, tick: i64) -> Self {
        let text = format!("program {seed}\n");
        let (ticked, coarse) = (raw(), coarse());
        Self {
            random: Random::new(seed),
            tick,
            ticked,
            coarse,
            unchanged: ticked,
            is_late: false,
            text,
        }
    }

    /// From a known state, some deeds, and the clocks after each.
    fn run(&mut self) {
        self.wait(self.tick * 2);
        let start = 1_700_000_000 + self.random.below(1_000_000);
        let fraction = self.random.below(NS_PER_S);
        self.look();
        let known = bits::STATUS | bits::FREQUENCY | bits::TICK | bits::TIMECONST;
        let known = known | bits::TAI | bits::MICRO | bits::MAXERROR | bits::ESTERROR;
        self.adjust(Fields { modes: bits::STATUS, status: bits::PLL, ..Fields::default() });
        self.adjust(Fields { modes: known, tick: 10_000, ..Fields::default() });
        // What was still slewed ends at the next tick; what the kernel had to make
        // good until then, at the second.
        self.set(start, fraction);
        self.wait(2 * self.tick);
        self.set(start, fraction);
        self.look();
        for _ in 0..3 + self.random.below(5) {
            self.deed();
            self.look();
            if self.is_late {
                self.text.push_str("late\n");
                break;
            }
        }
    }

    fn deed(&mut self) {
        match self.random.below(18) {
            0..=6 => {
                let fields = self.random.fields();
                self.adjust(fields);
            }
            7 | 8 => self.before_second(),
            9 => self.leap(),
            10 => self.discipline(),
            11 => {
                let seconds = self.random.pick([-1, 0, 1, 9_000_000_000, 1_800_000_000]);
                self.set(seconds, 0);
            }
            16 | 17 => self.nap(),
            12 => {
                // Once in a while long enough for the last bit of a multiplier.
                let ms = if self.random.below(8) == 0 { 15_000 } else { self.random.below(2500) };
                self.wait(ms * 1_000_000);
            }
            _ => {
                let ms = self.random.below(60);
                self.wait(ms * 1_000_000);
            }
        }
    }

    /// To shortly before a second, and past it.
    fn before_second(&mut self) {
        let second = 1_700_000_000 + self.random.pick([0, 40, 300, 5000, 900_000]);
        let before = 20_000_000 + self.random.below(40_000_000);
        self.set(second - 1, NS_PER_S - before);
        let fields = self.random.fields();
        self.adjust(fields);
        self.wait(before + 30_000_000);
    }

    /// A leap second armed in time, and the end of the day.
    fn leap(&mut self) {
        let status =
            self.random.pick([bits::INS, bits::INS | bits::PLL, bits::DEL, bits::DEL | bits::PLL]);
        let early = self.random.pick([0, 0, 1, 2]);
        self.set(86_400 * 20_000 - 3 + early, NS_PER_S - 50_000_000);
        self.adjust(Fields { modes: bits::STATUS, status, ..Fields::default() });
        for _ in 0..4 - early {
            let ms = 300 + self.random.below(500);
            self.wait(ms * 1_000_000);
            self.adjust(Fields::default());
        }
    }

    /// An offset slewed for some seconds.
    fn discipline(&mut self) {
        let modes = bits::STATUS | bits::OFFSET | bits::TIMECONST;
        let (status, constant) = (bits::PLL, self.random.below(4));
        let offset = self.random.about_zero(500_000);
        self.adjust(Fields { modes, status, constant, offset, ..Fields::default() });
        for _ in 0..1 + self.random.below(3) {
            self.wait(NS_PER_S);
            self.adjust(Fields::default());
        }
    }

    /// Sees each tick until so many ns have passed, and one more if the next is
    /// near, so that none comes while something is done.
    fn wait(&mut self, ns: i64) {
        let end = raw() + ns;
        loop {
            let now = raw();
            let next = self.ticked + self.tick;
            if now >= end && next - now > WATCH {
                return;
            }
            let until = if now >= end { next - SPIN } else { end.min(next - SPIN) };
            sleep(Duration::from_nanos(u64::try_from(until - now).unwrap_or(0)));
            self.see();
        }
    }

    /// Sleeps without a look, so that the machine is idle and the tick stops: what
    /// passed is added up at once, when it wakes up.
    fn nap(&mut self) {
        let ms = 30 + self.random.below(400);
        self.wait(0);
        self.see();
        sleep(Duration::from_millis(ms.unsigned_abs()));
        self.see();
    }

    /// Looks whether a tick has come.
    fn see(&mut self) {
        let (before, coarse) = (raw(), coarse());
        if coarse != self.coarse {
            let after = raw();
            self.text.push_str(&format!("tick {} {after} {coarse}\n", self.unchanged));
            // Seen late, the next is looked for from the earliest that it may be.
            let is_prompt = after - self.unchanged < PROMPT;
            self.ticked = if is_prompt { after } else { self.unchanged };
            self.coarse = coarse;
        }
        self.unchanged = before;
    }

    /// Does something between two readings of RAW, with no tick meanwhile.
    fn between<T>(&mut self, what: impl FnOnce() -> T) -> (i64, T, i64) {
        self.wait(0);
        let before = raw();
        let done = what();
        let after = raw();
        let coarse = coarse();
        let is_delayed = after - before > PROMPT || after > self.ticked + self.tick;
        // Delayed, it may have been a tick that moved the coarse clock.
        self.is_late |= is_delayed && coarse != self.coarse;
        (self.coarse, self.unchanged) = (coarse, after);
        (before, done, after)
    }

    fn look(&mut self) {
        let known = [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime];
        let [real, mono, boot] = known.map(DynamicClockId::Known);
        for (name, clock) in
            [("real", real), ("mono", mono), ("boot", boot), ("tai", DynamicClockId::Tai)]
        {
            let (before, time, after) = self.between(|| read(clock));
            self.text.push_str(&format!("{name} {before} {time} {after}\n"));
        }
    }

    fn set(&mut self, seconds: i64, nanos: i64) {
        require_disposable();
        let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
        let (before, set, after) = self.between(|| clock_settime(ClockId::Realtime, time));
        let error = set.map_or_else(|error| -i64::from(error.raw_os_error()), |()| 0);
        self.text.push_str(&format!("set {before} {seconds} {nanos} {error} {after}\n"));
    }

    fn adjust(&mut self, fields: Fields) {
        require_disposable();
        // SAFETY: invariant 1.
        let mut timex: libc::timex = unsafe { mem::zeroed() };
        timex.modes = fields.modes;
        (timex.offset, timex.freq) = (fields.offset, fields.frequency);
        (timex.maxerror, timex.esterror) = (fields.max_error, fields.estimated_error);
        (timex.status, timex.constant) = (fields.status as i32, fields.constant);
        timex.tick = fields.tick;
        (timex.time.tv_sec, timex.time.tv_usec) = (fields.seconds, fields.fraction);
        let ins = self.line(&timex);
        let (before, result, after) = self.between(|| {
            // SAFETY: invariant 1.
            let result = unsafe { libc::adjtimex(&raw mut timex) };
            let error = || io::Error::last_os_error().raw_os_error().unwrap_or(1);
            if result < 0 { -error() } else { result }
        });
        let outs = self.line(&timex);
        self.text.push_str(&format!("adjust {before} {ins} {result} {outs} {after}\n"));
    }

    fn line(&self, timex: &libc::timex) -> String {
        let libc::timex { modes, offset, freq, maxerror, esterror, status, constant, .. } = timex;
        let libc::timex { tick, tai, time, .. } = timex;
        let (seconds, fraction) = (time.tv_sec, time.tv_usec);
        format!(
            "{modes} {offset} {freq} {maxerror} {esterror} {status} {constant} {tick} {tai} \
             {seconds} {fraction}"
        )
    }
}
