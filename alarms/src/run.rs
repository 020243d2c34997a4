//! One machine's days: simulated, scraped, and its rules evaluated.

use simulator::fault::Planned;
use simulator::random::{Purpose, Stream};
use simulator::{Corrector, Scenario, Scrape, Simulation};

use crate::faults::{Fault, everyday};
use crate::machine;
use crate::rules::Alerts;

/// Prometheus' defaults of `scrape_interval` and `evaluation_interval`.
pub(crate) const EACH_MS: i64 = 60_000;

/// How long a machine is watched.
pub(crate) const SPAN_NS: i64 = 2 * 86_400_000_000_000;

/// The fault comes at a time between these, ns.
const BEGIN_NS: [f64; 2] = [2.0 * 3600e9, 12.0 * 3600e9];

/// Scrapes that fail alone, and minutes of failures each day: the network's, the
/// exporter's, Prometheus' own.
const LOST: f64 = 0.002;
const GAPS_A_DAY: f64 = 0.2;
const GAP_S: [f64; 2] = [120.0, 900.0];

/// Four servers on the internet, as distributions configure them.
const SCENARIO: &str = "
name = 'alarms'
poll_s = 64
[[server]]
delay_ms = 8.0
jitter_ms = 1.0
loss = 0.01
[[server]]
delay_ms = 25.0
jitter_ms = 3.0
loss = 0.01
[[server]]
delay_ms = 30.0
jitter_ms = 2.0
loss = 0.01
[[server]]
delay_ms = 40.0
jitter_ms = 4.0
there = 0.6
loss = 0.02
";

/// The scenario of a fault.
pub(crate) fn scenario(fault: &Fault) -> Scenario {
    let counter = if fault.on_tsc { "tsc" } else { "kvm-clock" };
    let text = format!("{SCENARIO}\n[guest]\ncounter = '{counter}'\n");
    toml::from_str(&text).unwrap_or_else(|why| panic!("{why}"))
}

/// What happened to a machine, and which alerts followed.
#[derive(Debug, Default)]
pub struct Run {
    /// When the fault began and ended, ms; it may not end.
    pub fault_ms: (i64, i64),
    /// When each alert began to fire, ms, and the number of its rule.
    pub fired: Vec<(i64, usize)>,
    /// The clock's error, s, at each scrape that succeeded, ms.
    pub errors: Vec<(i64, f64)>,
}

/// What looks on: after each evaluation, and at each scrape, which may have failed.
pub(crate) trait Witness {
    fn evaluated(&mut self, _at_ms: i64, _alerts: &Alerts) {}
    fn scraped(&mut self, _at_ms: i64, _alerts: &Alerts) {}
}

impl Witness for () {}

/// Simulates the `number`th machine of a kind.
pub(crate) fn run(
    scenario: &Scenario,
    fault: &Fault,
    on: Corrector,
    number: u64,
    witness: &mut impl Witness,
) -> Run {
    let seed = 14;
    let mut stream = Stream::new(seed, number, Purpose::Fault(1000));
    let begin_ns = stream.between(BEGIN_NS[0], BEGIN_NS[1]) as i64;
    let (events, end_ns) = fault.plan(&mut stream, begin_ns);
    let plan = merged(events, everyday(&mut stream, SPAN_NS), end_ns);
    let mut run = Run { fault_ms: (begin_ns / 1_000_000, end_ns / 1_000_000), ..Run::default() };
    let gaps = gaps(&mut stream);
    let mut prometheus = Prometheus { alerts: Alerts::new(), next_ms: 0, due_ms: EACH_MS / 3 };
    let has_daemon = matches!(on, Corrector::Keeper | Corrector::Beside);
    let simulation = Simulation::new(scenario, on, seed, SPAN_NS);
    simulation.scraped(number, &plan, EACH_MS * 1_000_000, &mut |scrape: &Scrape| {
        let at_ms = scrape.at_ns / 1_000_000;
        prometheus.fail_until(at_ms, &mut run, witness);
        let is_lost = stream.unit() < LOST || gaps.iter().any(|gap| gap.contains(&at_ms));
        if is_lost {
            return;
        }
        prometheus.evaluate_until(at_ms, &mut run, witness);
        let database = &mut prometheus.alerts.evaluator.database;
        machine::add(database, at_ms, scrape, has_daemon);
        prometheus.due_ms = at_ms + EACH_MS;
        witness.scraped(at_ms, &prometheus.alerts);
        run.errors.push((at_ms, scrape.error_ns as f64 / 1e9));
    });
    prometheus.fail_until(SPAN_NS / 1_000_000, &mut run, witness);
    run
}

/// What scrapes and evaluates.
struct Prometheus {
    alerts: Alerts,
    /// The next evaluation, and the next scrape, ms.
    next_ms: i64,
    due_ms: i64,
}

impl Prometheus {
    /// Evaluates what is due before a time.
    fn evaluate_until(&mut self, at_ms: i64, run: &mut Run, witness: &mut impl Witness) {
        while self.next_ms < at_ms {
            let now_ms = self.next_ms;
            self.alerts.evaluate(now_ms, |rule| run.fired.push((now_ms, rule)));
            witness.evaluated(now_ms, &self.alerts);
            self.next_ms += EACH_MS;
        }
    }

    /// The scrapes that were due before a time have failed.
    fn fail_until(&mut self, at_ms: i64, run: &mut Run, witness: &mut impl Witness) {
        while self.due_ms < at_ms {
            let due_ms = self.due_ms;
            self.evaluate_until(due_ms, run, witness);
            let database = &mut self.alerts.evaluator.database;
            database.begin();
            database.end(due_ms);
            witness.scraped(due_ms, &self.alerts);
            self.due_ms += EACH_MS;
        }
    }
}

/// Both in order; everyday events wait for what is a fault.
fn merged(mut events: Vec<Planned>, everyday: Vec<Planned>, end_ns: i64) -> Vec<Planned> {
    const APART_NS: i64 = 5_000_000_000;
    let begin_ns = events.first().map_or(i64::MAX, |event| event.at_ns);
    let stays = end_ns == i64::MAX;
    let end_ns = if stays { begin_ns } else { end_ns };
    let mut free_ns = APART_NS;
    for event in everyday {
        let until_ns = event.at_ns + event.length_ns + APART_NS;
        let is_near = event.at_ns < end_ns + APART_NS && until_ns > begin_ns;
        if !is_near {
            events.push(event);
        }
    }
    events.sort_by_key(|event| event.at_ns);
    events.retain(|event| {
        let is_everyday = !(begin_ns..=end_ns).contains(&event.at_ns);
        if is_everyday && event.at_ns < free_ns {
            return false;
        }
        free_ns = event.at_ns + event.length_ns + APART_NS;
        true
    });
    events
}

/// When no scrape succeeds, ms.
fn gaps(stream: &mut Stream) -> Vec<core::ops::Range<i64>> {
    let mut gaps = Vec::new();
    let mut at_s = 0.0;
    loop {
        at_s += stream.exponential() * 86_400.0 / GAPS_A_DAY;
        if at_s * 1e9 >= SPAN_NS as f64 {
            return gaps;
        }
        let length_s = stream.between(GAP_S[0], GAP_S[1]);
        gaps.push((at_s * 1e3) as i64..((at_s + length_s) * 1e3) as i64);
    }
}
