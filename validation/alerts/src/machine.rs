//! What the exporters of a simulated machine show: ours, node_exporter's timex collector,
//! and chrony_exporter.

use std::sync::LazyLock;

use daemon::status::{ClockReport, SourceStatus};
use facts::steering::Adjtimex;
use fleet::{DaemonTracking, METRICS, Metric, Snapshot, samples};
use keeper::SourceKind;
use keeper::event::KeeperSummary;
use simulator::SimulatedScrape;
use simulator::outcome::Counts;
use simulator::scrape::{KeeperScrape, SimulatedTracking};

use crate::installation::Installation;
use crate::rules::RULES;
use crate::series::Database;

/// What runs on each machine: 0.2 s.
const CONSUMER: &str = "cockroachdb";

/// Prometheus' own series for our exporter has its job.
const UP: [(&str, &str); 1] = [("job", "parachron")];

/// The names of a machine's servers.
const SERVERS: [&str; 4] = ["ntp a", "ntp b", "ntp c", "ntp d"];

/// Metrics that no rule names are left out: nobody asks for them here.
static ASKED: LazyLock<Vec<&Metric>> = LazyLock::new(|| {
    let is_named = |name: &&str| {
        let recorded = fleet::RECORDED.iter().map(|it| it.is);
        RULES.0.iter().map(|rule| rule.text).chain(recorded).any(|text| text.contains(name))
    };
    METRICS.iter().filter(|metric| is_named(&metric.name)).collect()
});

/// Adds a scrape's samples.
pub(crate) fn add(
    database: &mut Database,
    at_ms: i64,
    scrape: &SimulatedScrape,
    on: &Installation,
) {
    database.begin();
    database.add(at_ms, "up", &UP, 1.0);
    for sample in samples(&snapshot(scrape, on.has_daemon())) {
        if !ASKED.iter().any(|metric| std::ptr::eq(*metric, sample.metric)) {
            continue;
        }
        let values = sample.labels.iter().map(String::as_str);
        let mut labels: Vec<_> = sample.metric.labels.iter().copied().zip(values).collect();
        labels.sort_unstable();
        database.add(at_ms, sample.metric.name, &labels, sample.value);
    }
    let kernel = &scrape.kernel;
    let mut add = |name, value| database.add(at_ms, name, &[], value);
    add("node_timex_offset_seconds", kernel.offset_ns as f64 / 1e9);
    add("node_timex_maxerror_seconds", kernel.max_error_us as f64 / 1e6);
    // The collector goes by the call's result (collector/timex.go).
    add("node_timex_sync_status", f64::from(u8::from(kernel.state != 5)));
    if let Some(tracking) = scrape.tracking.filter(|_| on.has_chronyd()) {
        add("chrony_tracking_last_offset_seconds", tracking.last_offset_s);
        // Half the root delay is in it.
        add("chrony_tracking_root_dispersion_seconds", tracking.root_s);
        add("chrony_tracking_root_delay_seconds", 0.0);
    }
    database.end(at_ms);
}

/// A scrape that failed: nothing but that it did.
pub(crate) fn add_failure(database: &mut Database, at_ms: i64) {
    database.begin();
    database.add(at_ms, "up", &UP, 0.0);
    database.end(at_ms);
}

/// What our exporter knows.
fn snapshot(scrape: &SimulatedScrape, has_daemon: bool) -> Snapshot {
    let mut clock = match &scrape.keeper {
        Some(kept) => of_daemon(scrape, kept),
        None => Snapshot { daemon_up: has_daemon.then_some(false), ..Snapshot::default() },
    };
    let kernel = &scrape.kernel;
    let is_synchronised = kernel.state != 5 && !kernel.has(Adjtimex::STA_UNSYNC);
    clock.kernel_synchronised = Some(is_synchronised);
    let tracking =
        scrape.tracking.map(|SimulatedTracking { left_s, last_offset_s, root_s, age_s }| {
            let (offset_s, bound_s, age_s) = (left_s, root_s, Some(age_s));
            DaemonTracking { offset_s, last_offset_s, bound_s, age_s }
        });
    let is_stated = is_synchronised && kernel.max_error_us < 16_000_000;
    clock.complete(|| tracking, is_stated.then_some(kernel.max_error_us as f64 / 1e6));
    clock.consumers_here = vec![CONSUMER.to_owned()];
    // A read of the HPET leaves the guest; docs/measurements has the others.
    clock.read_s = Some(if scrape.clocksource == "hpet" { 2e-6 } else { 4e-8 });
    clock.steal_s = Some((scrape.stolen_ns / 10_000_000) as f64 / 100.0);
    clock.cpus = Some(1);
    clock
}

fn of_daemon(scrape: &SimulatedScrape, kept: &KeeperScrape) -> Snapshot {
    let source =
        |(name, view): (&str, _)| SourceStatus::new(name, SourceKind::Ntp, view, kept.now_ns);
    let sources: Vec<_> = SERVERS.into_iter().zip(&kept.view.sources).map(source).collect();
    let clock = ClockReport::new(&kept.view, &sources, None);
    let age_s = |at_ns: u64| kept.now_ns.saturating_sub(at_ns) as f64 / 1e9;
    let ages = kept.disruptions.iter().map(|(kind, (_, at_ns))| (kind.clone(), age_s(*at_ns)));
    let Counts { slews, steps, refusals, .. } = scrape.counts;
    // No rule goes by the counters of disruptions.
    let mut counts = KeeperSummary::default();
    (counts.slews, counts.steps, counts.refused) = (slews, steps, refusals);
    daemon::metrics::snapshot(&clock, &sources, &counts, ages.collect())
}
