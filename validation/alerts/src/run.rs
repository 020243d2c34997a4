//! One machine's days: simulated, scraped, and its rules evaluated.

use simulator::fault::{FaultKind, Planned};
use simulator::random::{Purpose, RandomStream};
use simulator::{Scenario, SimulatedScrape, Simulation};

use crate::faults::{Fault, everyday};
use crate::installation::Installation;
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
pub(crate) fn scenario(fault: &Fault, on: &Installation) -> Scenario {
    let counter = if fault.on_tsc { "tsc" } else { "kvm-clock" };
    let text = format!("poll_s = {}\n{SCENARIO}\n[guest]\ncounter = '{counter}'\n", on.poll_s);
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
    fault: &Fault,
    on: &Installation,
    number: u64,
    witness: &mut impl Witness,
) -> Run {
    let seed = 14;
    let mut stream = RandomStream::new(seed, number, Purpose::Fault(1000));
    let begin_ns = stream.between(BEGIN_NS[0], BEGIN_NS[1]) as i64;
    let (events, end_ns) = fault.plan(&mut stream, begin_ns);
    let plan = merged(events, everyday(&mut stream, SPAN_NS));
    let mut run = Run { fault_ms: (begin_ns / 1_000_000, end_ns / 1_000_000), ..Run::default() };
    let gaps = gaps(&mut stream);
    let mut prometheus = Prometheus { alerts: Alerts::new(), next_ms: 0, due_ms: EACH_MS / 3 };
    let scenario = scenario(fault, on);
    let simulation = Simulation::new(&scenario, on.on, seed, SPAN_NS);
    simulation.scraped(number, &plan, EACH_MS * 1_000_000, &mut |scrape: &SimulatedScrape| {
        let at_ms = scrape.at_ns / 1_000_000;
        prometheus.fail_until(at_ms, &mut run, witness);
        let is_lost = stream.unit() < LOST || gaps.iter().any(|gap| gap.contains(&at_ms));
        if is_lost || (on.serves_itself && scrape.keeper.is_none()) {
            return;
        }
        prometheus.evaluate_until(at_ms, &mut run, witness);
        let database = &mut prometheus.alerts.evaluator.database;
        machine::add(database, at_ms, scrape, on);
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
            machine::add_failure(&mut self.alerts.evaluator.database, due_ms);
            witness.scraped(due_ms, &self.alerts);
            self.due_ms += EACH_MS;
        }
    }
}

/// Both in order. What is everyday happens beside a fault too, but not within seconds of
/// another event, nor while the machine, or its daemon, is away.
fn merged(mut events: Vec<Planned>, everyday: Vec<Planned>) -> Vec<Planned> {
    const APART_NS: i64 = 5_000_000_000;
    let end_ns = |event: &Planned| match event.kind {
        FaultKind::NetworkDown | FaultKind::ServerLies => event.at_ns,
        _ => event.at_ns + event.length_ns,
    };
    for event in everyday {
        let is_near = |other: &Planned| {
            event.at_ns < end_ns(other) + APART_NS && other.at_ns < end_ns(&event) + APART_NS
        };
        if event.at_ns > APART_NS && !events.iter().any(is_near) {
            events.push(event);
        }
    }
    events.sort_by_key(|event| event.at_ns);
    events
}

/// When no scrape succeeds, ms.
fn gaps(stream: &mut RandomStream) -> Vec<core::ops::Range<i64>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FAULTS;

    #[test]
    fn a_fault_is_no_shelter_from_every_day() {
        let of = |name: &str| {
            let fault = FAULTS.iter().find(|fault| fault.name.starts_with(name)).unwrap();
            let mut stream = RandomStream::new(1, 1, Purpose::Fault(1000));
            let (events, end_ns) = fault.plan(&mut stream, 3_600_000_000_000);
            let daily = everyday(&mut stream, SPAN_NS);
            let within = |event: &Planned| (3_700_000_000_000..end_ns).contains(&event.at_ns);
            let meanwhile = daily.iter().filter(|event| within(event)).count();
            assert!(meanwhile > 0, "{name}");
            merged(events, daily).iter().filter(|event| within(event)).count()
        };
        assert!(of("no network") > 0);
        assert_eq!(of("time daemon not running"), 0);
    }
}
