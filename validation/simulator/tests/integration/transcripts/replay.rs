//! A transcript held against the model: every field equal, every clock within what is not known of
//! the moment at which it was read.

use std::collections::BTreeMap;

use simulator::kernel_clock::timex::{mode, status};
use simulator::kernel_clock::{KernelClockSource, LinuxKernel, Timekeeper, Timex, Version};

use super::seen::{self, Call};

/// What a transcript came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Programs judged, and those that ended early because the guest was delayed.
    pub(super) programs: u32,
    pub(super) delayed: u32,
    /// Calls of adjtimex and of `clock_settime`; times of day and clocks read, by
    /// them or alone; ticks.
    pub(super) calls: u32,
    pub(super) sets: u32,
    pub(super) readings: u32,
    pub(super) ticks: u32,
    /// How often each row of [`seen::ROWS`] was shown, and the model agreed.
    pub(super) seen: BTreeMap<&'static str, u32>,
    /// Readings of which no more was unknown than their bracket and a unit of the
    /// counter; of all, the furthest from the model beyond their bracket, and the
    /// furthest that one might have been, as ticks are not known to the ns; ns.
    pub(super) close: u32,
    /// Ticks whose length was compared to the ns.
    pub(super) exact: u32,
    /// Looks that found several new ticks, and the most of one.
    pub(super) several: u32,
    pub(super) most: u64,
    pub(super) worst_ns: i64,
    pub(super) allowed_ns: i64,
    /// What differed, at most a few.
    pub(super) differences: Vec<String>,
}

/// Differences kept.
const MOST: usize = 5;

/// What a unit of the counter, and the cut to whole ns of the coarse clocks, add
/// to a bracket, ns.
const GRAIN_NS: i64 = 300;

/// A coarse clock further off than this shows another number of ticks, ns.
const MISSED_NS: i64 = 4_000_000;

/// How a machine's counter is known from `CLOCK_MONOTONIC_RAW`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    pub(super) kernel: LinuxKernel,
    pub(super) source: KernelClockSource,
}

/// One program, followed.
struct Replay<'a> {
    counter: Counter,
    keeper: Option<Timekeeper>,
    /// RAW at the counter's 0.
    origin: i64,
    /// How often the time of day was set. From the second time on, a program's
    /// state is known (`Program::run`).
    sets: u32,
    /// What is not known of the moment of the last step, from which whole ticks
    /// are counted, ns.
    step_unsure_ns: i64,
    /// How far the model's coarse clock was ahead at the first tick since something
    /// was done, ns.
    coarse_ahead: Option<i128>,
    /// How far the model's uptime is ahead, as the first reading of a known state
    /// showed, and what that leaves open, ns.
    uptime: Option<(i128, i64)>,
    /// What is not known of the clock, ns, as ticks and sets are seen through
    /// brackets; the parts that change its rate are added up.
    unsure_ns: i64,
    outcome: &'a mut Outcome,
    name: String,
}

impl Counter {
    /// Of the line `kernel RELEASE HZ` that begins a transcript of user-mode
    /// Linux.
    pub(super) fn of(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("kernel "))?;
        let (release, hz) = line.split_once(' ')?;
        let mut parts = release.split(|other: char| !other.is_ascii_digit());
        let mut part = || parts.next()?.parse().ok();
        let version = Version(part()?, part()?, part().unwrap_or(0));
        let kernel = LinuxKernel::new(version, hz.trim().parse().ok()?);
        Some(Self { kernel, source: KernelClockSource::user_mode() })
    }
}

/// Replays a transcript.
pub(super) fn replay(text: &str, counter: Counter) -> Outcome {
    let mut outcome = Outcome::default();
    for program in text.split("program ").skip(1) {
        let (seed, lines) = program.split_once('\n').unwrap_or((program, ""));
        outcome.programs += 1;
        let name = format!("program {}", seed.trim());
        let origin = 0;
        let mut replay = Replay {
            counter,
            keeper: None,
            origin,
            sets: 0,
            step_unsure_ns: 0,
            coarse_ahead: None,
            uptime: None,
            unsure_ns: 0,
            outcome: &mut outcome,
            name,
        };
        for line in lines.lines() {
            if !replay.line(line.trim()) {
                break;
            }
        }
    }
    outcome
}

impl Replay<'_> {
    /// Follows a line; false where the program cannot be followed any further.
    fn line(&mut self, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Option<Vec<i64>> = rest.split(' ').map(|number| number.parse().ok()).collect();
        let numbers = numbers.unwrap_or_default();
        match (word, numbers.as_slice()) {
            ("late", _) => {
                self.outcome.delayed += 1;
                false
            }
            ("mono", &[before, time, after]) if self.keeper.is_none() => {
                self.boot(before.midpoint(after), time);
                true
            }
            ("tick", &[before, after, coarse]) => self.tick(before, after, coarse),
            ("set", &[before, seconds, nanos, error, after]) => self.set(
                (before, after),
                i128::from(seconds) * 1_000_000_000 + i128::from(nanos),
                error,
            ),
            ("adjust", &[before, ref fields @ .., after]) if fields.len() == 23 => {
                self.adjust((before, after), fields, line)
            }
            ("real" | "mono" | "boot" | "tai", &[before, time, after]) => {
                self.reading(word, (before, after), time)
            }
            ("tick" | "set" | "adjust" | "real" | "mono" | "boot" | "tai", _) => {
                self.outcome.differences.push(format!("{}: not understood: {line}", self.name));
                false
            }
            // What else its console shows.
            _ => true,
        }
    }

    fn is_known(&self) -> bool {
        self.sets >= 2
    }

    fn differs(&mut self, what: String) -> bool {
        if self.outcome.differences.len() < MOST {
            self.outcome.differences.push(format!("{}: {what}", self.name));
        }
        false
    }

    /// The model's machine booted `time` before this reading of RAW.
    fn boot(&mut self, raw: i64, time: i64) {
        self.origin = raw - time;
        let Counter { kernel, source } = self.counter;
        self.keeper = Some(Timekeeper::boot(kernel, source, 0, 1_700_000_000_000_000_000));
    }

    /// The counter at a reading of RAW.
    fn count(&self, raw: i64) -> u64 {
        let ns = i128::from((raw - self.origin).max(0));
        let counts = ns * i128::from(self.counter.source.hz) / 1_000_000_000;
        u64::try_from(counts).unwrap_or_default()
    }

    /// A tick came between two readings. The coarse clock tells how much it added
    /// up, and so the moments at which it may have come.
    fn tick(&mut self, before: i64, after: i64, coarse: i64) -> bool {
        let Some(keeper) = self.keeper else { return true };
        self.outcome.ticks += 1;
        if !self.is_known() {
            self.interrupt(self.count(after));
            return true;
        }
        let (counts, last) = (keeper.tick_counts(), keeper.ticked());
        let unsure = self.step_unsure_ns;
        let (first, latest) = (self.count(before - unsure), self.count(after + unsure));
        let ahead = self.uptime.map_or(0, |(ahead, _)| ahead);
        // Each number of ticks that may have been added up, at the moments that
        // leave it possible, and how far the coarse clock is then from the seen.
        let added = latest.saturating_sub(last) / counts;
        let fewest = (first.saturating_sub(last) / counts).max(1);
        let possible = (fewest..=added).map(|ticks| {
            let first = first.max(last + ticks * counts);
            let latest = latest.min(last + (ticks + 1) * counts - 1);
            let mut keeper = keeper;
            keeper.interrupt(first.midpoint(latest));
            let off = keeper.clocks(keeper.ticked()).monotonic - ahead - i128::from(coarse);
            (off.abs(), ticks, first, latest)
        });
        let limit = i128::from(MISSED_NS + self.unsure_ns);
        let Some((_, ticks, first, latest)) = possible.min().filter(|&(off, ..)| off < limit)
        else {
            return self.differs(format!("tick at {before}..{after}: coarse {coarse}"));
        };
        self.outcome.several += u32::from(ticks > 1);
        self.outcome.most = self.outcome.most.max(ticks);
        let ppb = self.interrupt(first.midpoint(latest));
        if !self.rate_is_kept(coarse, ppb) {
            return self.differs(format!("tick at {before}..{after}: not the rate, {coarse}"));
        }
        // Added up at once or one by one, all of them seen at the end.
        let width_ns = if ticks > 1 { after - before } else { (latest - first) as i64 * 256 };
        self.unsure_ns += width_ns * ppb / 1_000_000_000;
        true
    }

    /// Returns by how much it changed the rate, ppb.
    fn interrupt(&mut self, counter: u64) -> i64 {
        let Some(keeper) = &mut self.keeper else { return 0 };
        let mult = i64::from(keeper.mult());
        keeper.interrupt(counter);
        (i64::from(keeper.mult()) - mult).abs() * 1_000_000_000 / mult
    }

    /// As long as ticks change no rate, the coarse clock moves by what the model
    /// says: no bracket is in the way, but each of two readings is cut to whole ns.
    fn rate_is_kept(&mut self, coarse: i64, ppb: i64) -> bool {
        let Some(keeper) = &self.keeper else { return true };
        let ahead = keeper.clocks(keeper.ticked()).monotonic - i128::from(coarse);
        if ppb != 0 {
            self.coarse_ahead = None;
        }
        let Some(first) = self.coarse_ahead else {
            self.coarse_ahead = Some(ahead);
            return true;
        };
        self.outcome.exact += 1;
        (ahead - first).abs() <= 2
    }

    fn set(&mut self, (before, after): (i64, i64), realtime: i128, error: i64) -> bool {
        let (at, unsure_ns) = (self.count(before.midpoint(after)), self.half(before, after));
        let Some(keeper) = &mut self.keeper else { return true };
        self.outcome.sets += 1;
        let is_taken = keeper.set_realtime(at, realtime).is_ok();
        if is_taken != (error == 0) {
            return self.differs(format!("set to {realtime} at {before}: error {error}"));
        }
        seen::count_set(&mut self.outcome.seen, is_taken);
        self.step_unsure_ns = after - before;
        self.coarse_ahead = None;
        if is_taken {
            self.sets += 1;
            self.unsure_ns = unsure_ns;
        }
        true
    }

    fn adjust(&mut self, (before, after): (i64, i64), fields: &[i64], line: &str) -> bool {
        let (mut timex, result, seen) = (timex(&fields[..11]), fields[11], timex(&fields[12..]));
        let (at, is_known) = (self.count(before.midpoint(after)), self.is_known());
        let Some(keeper) = &mut self.keeper else { return true };
        if !is_known {
            // It sees what another program left.
            let _ = keeper.adjtimex(at, &mut timex);
            return true;
        }
        self.outcome.calls += 1;
        let call = Call { input: timex, result, output: seen };
        if timex.modes != 0 {
            self.coarse_ahead = None;
        }
        let mult = keeper.mult();
        let told = keeper.adjtimex(at, &mut timex).map_or(-22, i64::from);
        let ppb =
            (i64::from(keeper.mult()) - i64::from(mult)).abs() * 1_000_000_000 / i64::from(mult);
        self.unsure_ns += (after - before) * ppb / 1_000_000_000;
        let mut fields = (told, timex);
        (fields.1.seconds, fields.1.fraction) = (seen.seconds, seen.fraction);
        if fields != (result, seen) {
            return self.differs(format!("{line}\n    model: {told} {timex:?}"));
        }
        seen::count(&mut self.outcome.seen, &call);
        if timex.modes & mode::SETOFFSET != 0 {
            self.step_unsure_ns = after - before;
        }
        if told < 0 {
            return true;
        }
        let unit = if seen.status & status::NANO == 0 { 1000 } else { 1 };
        let ns = |timex: &Timex| timex.seconds * 1_000_000_000 + timex.fraction * unit;
        let off = (ns(&timex) - ns(&seen)).abs() - self.half(before, after) - unit;
        self.is_within(off, line)
    }

    fn reading(&mut self, clock: &str, (before, after): (i64, i64), time: i64) -> bool {
        let Some(keeper) = &self.keeper else { return true };
        if !self.is_known() {
            return true;
        }
        let clocks = keeper.clocks(self.count(before.midpoint(after)));
        let model = match clock {
            "real" => clocks.realtime,
            "mono" => clocks.monotonic,
            "boot" => clocks.boottime,
            _ => clocks.tai,
        };
        let mut ahead = model - i128::from(time);
        let mut width = self.half(before, after);
        if matches!(clock, "mono" | "boot") {
            let (first, unsure) = *self.uptime.get_or_insert((ahead, width));
            (ahead, width) = (ahead - first, width + unsure);
        }
        let off = i64::try_from(ahead.abs()).unwrap_or(i64::MAX);
        let what = format!("{clock} {time} at {before}..{after}, model {model}");
        self.is_within(off - width, &what)
    }

    /// Half of a bracket, on a clock that is steered by up to 11 %.
    fn half(&self, before: i64, after: i64) -> i64 {
        let mult = self.keeper.map_or(self.counter.source.mult, |keeper| keeper.mult());
        let width = i128::from(after - before) * i128::from(mult);
        (width / i128::from(self.counter.source.mult) / 2) as i64
    }

    fn is_within(&mut self, off_ns: i64, what: &str) -> bool {
        let allowed = self.unsure_ns + GRAIN_NS;
        self.outcome.readings += 1;
        self.outcome.close += u32::from(off_ns <= GRAIN_NS);
        self.outcome.worst_ns = self.outcome.worst_ns.max(off_ns);
        self.outcome.allowed_ns = self.outcome.allowed_ns.max(allowed);
        if off_ns > allowed {
            return self.differs(format!("{off_ns} ns off, {allowed} allowed: {what}"));
        }
        true
    }
}

/// The fields in their order.
pub(super) fn timex(fields: &[i64]) -> Timex {
    let mut timex = Timex::default();
    if let &[
        modes,
        offset,
        frequency,
        max_error,
        estimated_error,
        status,
        constant,
        tick,
        tai,
        seconds,
        fraction,
    ] = fields
    {
        let modes = modes as u32;
        let (status, tai) = (status as i32, tai as i32);
        timex = Timex { modes, offset, frequency, max_error, estimated_error, ..timex };
        timex = Timex { status, constant, tick, tai, seconds, fraction, ..timex };
    }
    timex
}
