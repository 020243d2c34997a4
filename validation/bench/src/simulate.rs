//! Guest-days a minute: fleets with the keeper on, a server polled each 64 s, and a
//! fault a guest-day.

use std::hint::black_box;
use std::time::Instant;

use simulator::{Fleet, Scenario, ScenarioCorrector, Simulation};

/// One server is what clknetsim's measured runs have; three are what a fleet has.
const SCENARIO: &str = "
name = 'bench'
[[fault]]
kind = 'migrate'
per_day = 1.0
length_s = [0.05, 0.9]
[[server]]
";

/// Guest-days a minute on two CPUs.
const RATE: f64 = 1_000_000.0;
/// The bar beside clknetsim, which runs chronyd itself and no hosts, counters, pauses or
/// kernels; here chronyd does not run.
const TIMES_CLKNETSIM: f64 = 700.0;
/// By how much the cost of a guest may differ among sizes of fleets.
const LINEAR: f64 = 0.10;
/// Bytes a guest.
const MEMORY: f64 = 1024.0;
/// Runs of each, of which the fastest counts: others use these CPUs as well.
const RUNS: usize = 3;

/// Iterations of the loop that the rate is told by.
const LOOP: u64 = 200_000_000;

/// A loop of one multiplication and one addition that wait for each other.
/// What it takes of a CPU, s.
fn arithmetic() -> f64 {
    let begun_s = cpu_s();
    let mut state = 1_u64;
    for _ in 0..LOOP {
        // Not folded into fewer steps.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    cpu_s() - begun_s
}

/// What this thread has run, s, without what others took of its CPU.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e9)
}

/// The fleet, the time that it took, s, and the CPU of all threads, s.
fn on_threads(simulation: Simulation<'_>, guests: u64, threads: u64) -> (Fleet, f64, f64) {
    let begun = Instant::now();
    let fleets: Vec<(Fleet, f64)> = std::thread::scope(|scope| {
        let share = |n: u64| guests * n / threads..guests * (n + 1) / threads;
        let run = |n| scope.spawn(move || (simulation.guests(share(n), || true), cpu_s()));
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().filter_map(|one| one.join().ok()).collect()
    });
    let mut all = Fleet::new();
    let cpu_s = fleets.iter().map(|(_, cpu_s)| cpu_s).sum();
    fleets.into_iter().for_each(|(fleet, _)| all.merge(fleet));
    (all, begun.elapsed().as_secs_f64(), cpu_s)
}

fn fastest(simulation: Simulation<'_>, guests: u64, threads: u64) -> (Fleet, f64, f64) {
    let runs = (0..RUNS).map(|_| on_threads(simulation, guests, threads));
    runs.min_by(|one, other| one.2.total_cmp(&other.2)).expect("RUNS is not 0")
}

/// The process's memory, bytes.
fn resident() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|why| why.to_string())?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.map(|pages| pages * 4096.0).ok_or_else(|| format!("/proc/self/statm: {text:?}"))
}

/// Runs it; whether all bars are met.
pub(crate) fn run(guests: u64) -> Result<bool, String> {
    let parse = |text: &str| toml::from_str::<Scenario>(text).map_err(|why| why.to_string());
    let one = parse(SCENARIO)?;
    let three = parse(&format!("{SCENARIO}[[server]]\n[[server]]\n"))?;
    let span_ns = one.check(guests, 1.0).map_err(|why| format!("{why:?}"))?;
    let simulation = |scenario| Simulation::new(scenario, ScenarioCorrector::Keeper, 7, span_ns);
    let loops = arithmetic().min(arithmetic());
    println!("arithmetic: {:.0} M steps a second on one CPU\n", LOOP as f64 / loops / 1e6);

    let mut met = true;
    let mut rate = 0.0;
    for (scenario, servers) in [(&three, 3), (&one, 1)] {
        let (fleet, took_s, cpu_s) = fastest(simulation(scenario), guests, 2);
        rate = guests as f64 / cpu_s * 2.0 * 60.0;
        let seen = guests as f64 / took_s * 60.0;
        let each = |count: u64| count as f64 / guests as f64;
        let counts = fleet.counts;
        println!(
            "{servers} server(s): {seen:.0} guest-days a minute on 2 threads as it was, {rate:.0} with \
             2 CPUs for itself: {:.1} us of CPU each; a guest-day has {:.0} polls, {:.0} requests, {:.2} faults, {:.1} samples; \
             {:.0} events",
            1e6 * cpu_s / guests as f64,
            each(counts.polls),
            each(counts.requests),
            each(counts.faults),
            each(counts.samples),
            each(counts.events()),
        );
        let steps = cpu_s / guests as f64 / (loops / LOOP as f64);
        println!("    as much as {steps:.0} steps of the arithmetic loop\n");
    }
    met &= bar("guest-days a minute, 1 server", rate, RATE);
    match super::regression::clknetsim_rate() {
        Ok(theirs) => {
            println!("clknetsim with chronyd: {theirs:.0} guest-days a minute on two CPUs");
            met &= bar("times clknetsim's, in this run", rate / theirs, TIMES_CLKNETSIM);
        }
        Err(why) => println!("{why}"),
    }
    met &= linear(simulation(&one))?;
    Ok(met)
}

/// The cost of a guest in fleets of several sizes, and its memory.
fn linear(simulation: Simulation<'_>) -> Result<bool, String> {
    let mut costs = Vec::new();
    for size in [100, 1000, 10_000, 100_000] {
        // Small fleets are run often enough to be timed.
        let repeats = (10_000 / size).max(1);
        let (before, begun_s) = (resident()?, cpu_s());
        let fleets: Vec<Fleet> =
            (0..repeats).map(|_| simulation.guests(0..size, || true)).collect();
        let cost_us = (cpu_s() - begun_s) * 1e6 / (size * repeats) as f64;
        let bytes = (resident()? - before) / (size * repeats) as f64;
        println!("{size:>7} guests: {cost_us:.1} us a guest-day on one thread");
        if size >= 10_000 {
            println!("                {bytes:.0} bytes a guest");
            costs.push((cost_us, Some(bytes)));
        } else {
            costs.push((cost_us, None));
        }
        drop(fleets);
    }
    let least = costs.iter().map(|cost| cost.0).fold(f64::MAX, f64::min);
    let most = costs.iter().map(|cost| cost.0).fold(0.0, f64::max);
    let bytes = costs.iter().filter_map(|cost| cost.1).fold(0.0, f64::max);
    let is_linear = super::judge("spread of the cost of a guest", most / least - 1.0, LINEAR, "");
    Ok(super::judge("bytes a guest", bytes, MEMORY, "") && is_linear)
}

fn bar(what: &str, figure: f64, least: f64) -> bool {
    let met = figure >= least;
    let word = if met { "met" } else { "NOT MET" };
    println!("{what:<46} {figure:>12.0}  at least {least:.0}  {word}");
    met
}
