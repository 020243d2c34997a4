//! While fewer than half of the independent sources lie, no correction leaves
//! the clock further from the truth than it was, or than the right sources'
//! bounds allow; no frequency that is set is further from the oscillator's than
//! the one before, or, by servers, by no more than moves the clock by their bound
//! within a poll, nor is any claimed to be known better than it is; and no error that the kernel was told is
//! smaller than the clock's, then or until something happens, but for those bounds.
//!
//! Each history is made from its number: which sources there are, which of
//! them lie in concert and by how much, how wrong the clock is at the start, how
//! fast its oscillator is, and then pauses that are detected or not, outages, lies
//! that change, an RTC that the kernel writes. The host lies with all of its faces,
//! its RTC included. In every fourth history a leap second is near, which fewer of the
//! sources smear than do not, or the other way round: the truth is the scale of more.
//!
//! `PARACHRON_HISTORIES=1000000 cargo test --release -p parachron-keeper --test
//! never_worse` runs as many, from `PARACHRON_FIRST` on; a failure names the history.

mod model;

use keeper::{Policy, Scale, SourceKind};
use model::{HALF_A_DAY_NS, MS, Machine, NOON_NS, S, Source};

/// Histories in an ordinary run.
const HISTORIES: u64 = 3000;

/// The kernel's unit, 2^-16 ppm.
const FREQUENCY_UNIT_PPB: f64 = 1000.0 / 65_536.0;

/// xorshift64* (Vigna, 2016).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // SplitMix64's constants: neighbouring numbers begin unlike.
        let mixed = (seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// From microseconds to days, either way.
    fn lie_ns(&mut self) -> i64 {
        let size = 1000_i64 << self.below(37);
        let size = size + self.below(size.unsigned_abs()) as i64;
        if self.one_in(2) { size } else { -size }
    }
}

/// The faces of one host, and servers: by voice.
#[derive(Debug)]
struct Fleet {
    sources: Vec<Source>,
    /// Indices of the sources of each voice.
    voices: Vec<Vec<usize>>,
    /// How many of the voices lie: the first ones.
    liars: usize,
}

impl Fleet {
    fn new(random: &mut Random) -> Self {
        let mut fleet = Self { sources: Vec::new(), voices: Vec::new(), liars: 0 };
        if !random.one_in(4) {
            let faces = [
                (SourceKind::VmClock, 100 + random.below(100_000)),
                (SourceKind::Phc, 100 + random.below(100_000)),
                (SourceKind::Rtc, S / 2),
            ];
            let mut voice = Vec::new();
            for (kind, bound_ns) in faces {
                if random.one_in(2) {
                    voice.push(fleet.sources.len());
                    fleet.sources.push(Source::honest(kind, bound_ns));
                }
            }
            fleet.voices.extend((!voice.is_empty()).then_some(voice));
        }
        let servers = random.below(5) + u64::from(fleet.voices.is_empty());
        for _ in 0..servers {
            fleet.voices.push(vec![fleet.sources.len()]);
            let bound_ns = 10_000 + random.below(20_000_000);
            fleet.sources.push(Source::honest(SourceKind::Ntp, bound_ns));
        }
        // The host is among the liars half of the time.
        if random.one_in(2) {
            fleet.voices.reverse();
        }
        fleet.liars = random.below((fleet.voices.len() as u64).div_ceil(2)) as usize;
        fleet
    }

    fn lying(&self) -> impl Iterator<Item = usize> {
        self.voices.iter().take(self.liars).flatten().copied()
    }

    /// How far a falseticker that agrees with one of the right may be from it:
    /// twice its bound. The RTC's is that of a difference of two readings.
    fn bound_ns(&self) -> u64 {
        let right = self.voices.iter().skip(self.liars).flatten().map(|&index| self.sources[index]);
        let within = |source: Source| match source.kind {
            SourceKind::Rtc => 4 * source.bound_ns,
            _ => 2 * source.bound_ns,
        };
        right.map(within).max().unwrap_or(0)
    }
}

fn lie(machine: &mut Machine, fleet: &Fleet, by_ns: i64) {
    for index in fleet.lying() {
        machine.sources[index].lie_ns = by_ns;
    }
}

/// A leap second is near, and some of the voices show another scale than the others.
fn mix(machine: &mut Machine, fleet: &Fleet, random: &mut Random) {
    let shows_time = |index: &usize| machine.sources[*index].kind != SourceKind::Rtc;
    let timed = fleet.voices.iter().filter(|voice| voice.iter().any(shows_time));
    let mut timed: Vec<Vec<usize>> = timed.cloned().collect();
    let most = timed.len() / 2;
    if most == 0 {
        return;
    }
    let others = 1 + random.below(most as u64) as usize;
    let is_even = 2 * others == timed.len();
    let [main, other] = if is_even || random.one_in(2) {
        [Scale::Utc, Scale::Smeared]
    } else {
        [Scale::Smeared, Scale::Utc]
    };
    let first = random.below(timed.len() as u64) as usize;
    timed.rotate_left(first);
    for (at, index) in
        timed.iter().enumerate().flat_map(|(at, voice)| voice.iter().map(move |it| (at, *it)))
    {
        machine.sources[index].scale = if at < others { other } else { main };
    }
    machine.scale = main;
    let since_ns = random.below(2 * HALF_A_DAY_NS.unsigned_abs() / S) as i64 * S as i64;
    let by_ns = NOON_NS - HALF_A_DAY_NS / 12 + since_ns - machine.clock.truth_ns;
    machine.clock.truth_ns += by_ns;
    machine.clock.realtime_ns += by_ns;
}

/// One thing that happens.
fn happen(machine: &mut Machine, fleet: &Fleet, random: &mut Random) {
    match random.below(7) {
        0 => machine.samples(random.below(150)),
        1 | 2 => {
            let for_ns = (1_000_000 << random.below(26)) + random.below(1000) * 1_000_000;
            machine.clock.pause(for_ns);
            let seen = (!random.one_in(3)).then(|| machine.seen(for_ns));
            machine.sample(seen.as_slice());
        }
        3 => {
            let by_ns = random.lie_ns();
            lie(machine, fleet, by_ns);
        }
        4 => {
            let index = random.below(machine.sources.len() as u64) as usize;
            machine.sources[index].is_unreachable ^= true;
        }
        // The kernel writes the RTC.
        5 => {
            let error_ns = machine.clock.error_ns();
            let clocks = machine.sources.iter_mut().filter(|one| one.kind == SourceKind::Rtc);
            clocks.for_each(|rtc| rtc.lie_ns = error_ns);
        }
        // The network is down, or up again.
        _ => {
            let is_down = random.one_in(2);
            let servers = machine.sources.iter_mut();
            servers
                .filter(|source| source.kind == SourceKind::Ntp)
                .for_each(|source| source.is_unreachable = is_down);
        }
    }
}

/// What the frequencies that were set are beside the oscillator's.
fn check_frequency(machine: &Machine, poll_ns: u64) -> Result<(), String> {
    let servers = machine.sources.iter().filter(|source| source.kind == SourceKind::Ntp);
    let bound_ns = servers.map(|source| source.bound_ns).max().unwrap_or(0);
    // Combined bounds are rounded up.
    let by_bound_ppb = (bound_ns + 2) as f64 / poll_ns as f64 * 1e9;
    for ((before, after), by_servers) in machine.clock.frequencies.iter().zip(&machine.by_servers) {
        let more_ppb = if *by_servers { by_bound_ppb } else { 0.0 };
        if after.abs() > before.abs() + more_ppb + FREQUENCY_UNIT_PPB {
            return Err(format!("an error of {before} ppb became {after} ppb"));
        }
    }
    let error_ppb = machine.clock.rate_error_ppb();
    match machine.keeper.frequency() {
        Some(known) if error_ppb.abs() > known.uncertainty_ppb => {
            Err(format!("the frequency is off by {error_ppb} ppb, and claimed to be {known:?}"))
        }
        _ => Ok(()),
    }
}

/// Runs a history; what it did that it must not.
fn run(history: u64) -> Result<(usize, usize), String> {
    let random = &mut Random::new(history);
    let fleet = Fleet::new(random);
    // Servers are polled more often than a minute apart, so that they teach much.
    let poll_ns = if random.one_in(2) { 64 * S } else { S << (2 + random.below(4)) };
    let policy = Policy { poll_ns, ..Policy::default() };
    // How wrong a clock is, an RTC alone cannot show: it shows by how much more.
    let has_time = fleet.sources.iter().any(|source| source.kind != SourceKind::Rtc);
    let drift_ppm = match random.below(16) {
        // What was measured a minute ago says nothing then, so nobody may lie as well.
        0 if has_time && fleet.liars == 0 => random.below(180_001) as i64 - 90_000,
        1..8 => random.below(401) as i64 - 200,
        _ => 0,
    };
    let mut machine = Machine::new(policy.clone(), &fleet.sources, drift_ppm, history);
    // It holds another time than the clock's, and is honest all the same.
    if random.one_in(2) {
        let by_ns = random.lie_ns();
        let clocks = machine.sources.iter_mut().filter(|one| one.kind == SourceKind::Rtc);
        clocks.for_each(|rtc| rtc.lie_ns = by_ns);
    }
    if history.is_multiple_of(4) {
        mix(&mut machine, &fleet, &mut Random::new(!history));
    }
    let by_ns = random.lie_ns();
    lie(&mut machine, &fleet, by_ns);
    if has_time && random.one_in(3) {
        machine.clock.realtime_ns += random.lie_ns() / MS * MS;
    }
    // Before the network is up.
    if random.one_in(3) {
        let servers = machine.sources.iter_mut();
        servers
            .filter(|source| source.kind == SourceKind::Ntp)
            .for_each(|source| source.is_unreachable = true);
    }
    machine.samples(random.below(4));
    for _ in 0..random.below(8) {
        happen(&mut machine, &fleet, random);
        machine.samples(2);
    }
    let mut allowed_ns = fleet.bound_ns() + policy.tolerance_ns;
    for (before, after) in &machine.corrections {
        if after.unsigned_abs() > before.unsigned_abs().max(allowed_ns) {
            return Err(format!(
                "history {history}: an error of {before} ns became {after} ns (allowed \
                 {allowed_ns}), {} of {} voices lie\n{:#?}",
                fleet.liars,
                fleet.voices.len(),
                machine.sources
            ));
        }
        // By an RTC alone, what each leaves is still there at the next.
        if !has_time {
            allowed_ns += fleet.bound_ns();
        }
    }
    // A rate that no oscillator has, the kernel does not add up.
    if drift_ppm.abs() <= 200 && machine.clock.unknown_ns > allowed_ns {
        let unknown_ns = machine.clock.unknown_ns;
        return Err(format!("history {history}: {unknown_ns} ns off what was told, {fleet:#?}"));
    }
    check_frequency(&machine, poll_ns)
        .map_err(|why| format!("history {history}: {why}, {fleet:#?}"))?;
    for (reported_ns, error_ns) in &machine.clock.max_errors {
        if error_ns.saturating_sub(*reported_ns) > allowed_ns {
            return Err(format!(
                "history {history}: reported {reported_ns} ns, is {error_ns} ns, {} lie\n{:#?}",
                fleet.liars, machine.sources
            ));
        }
    }
    Ok((machine.corrections.len(), machine.clock.frequencies.len()))
}

/// Pauses that are seen, again and again, or a rate that comes and goes: what is wrong
/// after them, while most are right.
fn comes_and_goes(history: u64) -> Result<(), String> {
    let random = &mut Random::new(history);
    let mut fleet = Fleet { sources: Vec::new(), voices: Vec::new(), liars: 0 };
    for index in 0..2 + random.below(4) as usize {
        let bound_ns = 10_000 + random.below(20_000_000);
        fleet.sources.push(Source::honest(SourceKind::Ntp, bound_ns));
        fleet.voices.push(vec![index]);
    }
    fleet.liars = random.below((fleet.voices.len() as u64).div_ceil(2)) as usize;
    let policy = Policy::default();
    let drift_ppm = random.below(401) as i64 - 200;
    let mut machine = Machine::new(policy.clone(), &fleet.sources, drift_ppm, history);
    let by_ns = random.lie_ns();
    lie(&mut machine, &fleet, by_ns);
    machine.samples(400 + random.below(1000));
    if random.one_in(2) {
        let for_ns = (1 + random.below(2000)) * MS as u64;
        let apart = 20 + random.below(300);
        for _ in 0..6 + random.below(10) {
            machine.clock.pause(for_ns);
            machine.sample(&[machine.seen(for_ns)]);
            machine.samples(apart);
        }
        if !machine.told_ppb.is_empty() {
            return Err(format!("history {history}: {:?} told of pauses", machine.told_ppb));
        }
    } else {
        for _ in 0..1 + random.below(2) {
            machine.clock.drift_ppb += (random.below(180_001) as f64 - 90_000.0) * 1e3;
            machine.samples(random.below(3000));
            machine.clock.drift_ppb = drift_ppm as f64 * 1e3;
            machine.samples(random.below(1000));
        }
    }
    let refusals = machine.refusals;
    machine.samples(1200);
    // Until the next poll a change of frequency moves it by a bound, and a crystal that
    // is not learnt yet by its own rate.
    let run_off_ns = drift_ppm.unsigned_abs() * (policy.poll_ns / 1_000_000);
    let most_ns = fleet.bound_ns() * 3 / 2 + policy.tolerance_ns + run_off_ns;
    let error_ns = machine.clock.error_ns();
    if error_ns.unsigned_abs() > most_ns {
        return Err(format!("history {history}: {error_ns} ns off at the end, {fleet:#?}"));
    }
    if machine.refusals > refusals + 4 {
        return Err(format!("history {history}: refuses, {fleet:#?}"));
    }
    Ok(())
}

#[test]
fn what_comes_and_goes_leaves_a_right_clock() {
    let histories = first() / 30..(first() + histories()) / 30;
    let failures: Vec<String> =
        histories.filter_map(|history| comes_and_goes(history).err()).collect();
    let shown = failures[..failures.len().min(5)].join("\n");
    assert!(failures.is_empty(), "{} failed:\n{shown}", failures.len());
}

fn wanted(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|count| count.parse().expect("a number"))
}

fn histories() -> u64 {
    wanted("PARACHRON_HISTORIES").unwrap_or(HISTORIES)
}

fn first() -> u64 {
    wanted("PARACHRON_FIRST").unwrap_or(0)
}

#[test]
fn a_right_clock_is_never_made_worse() {
    let histories = histories();
    let (mut corrections, mut frequencies) = (0, 0);
    let mut failures = Vec::new();
    let one = wanted("PARACHRON_HISTORY");
    for history in one.map_or(first()..first() + histories, |one| one..one + 1) {
        match run(history) {
            Ok((made, set)) => {
                corrections += made as u64;
                frequencies += set as u64;
            }
            Err(why) => failures.push(why),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    // It is no great thing to be harmless by doing nothing.
    assert!(corrections > histories / 2, "{corrections} corrections in {histories} histories");
    assert!(frequencies > histories / 10, "{frequencies} frequencies in {histories} histories");
}
