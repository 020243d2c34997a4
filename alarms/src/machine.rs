//! What the exporters of a simulated machine show: ours, node_exporter's timex collector,
//! and chrony_exporter.

use std::sync::LazyLock;

use facts::steering::Adjtimex;
use fleet::{Followed, METRICS, Metric, Snapshot, Source, samples};
use keeper::{ClockState, SourceState};
use simulator::Scrape;
use simulator::scrape::{Kept, Tracking};

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
pub(crate) fn add(database: &mut Database, at_ms: i64, scrape: &Scrape, has_daemon: bool) {
    database.begin();
    database.add(at_ms, "up", &UP, 1.0);
    for sample in samples(&snapshot(scrape, has_daemon)) {
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
    if let Some(tracking) = scrape.tracking {
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

/// What our exporter knows: a copy by hand of what crate `daemon` makes of the view, and
/// of what `exporter` reads; how the two are joined they share.
fn snapshot(scrape: &Scrape, has_daemon: bool) -> Snapshot {
    let mut clock = match &scrape.keeper {
        Some(kept) => of_daemon(scrape, kept),
        None => Snapshot { daemon_up: has_daemon.then_some(false), ..Snapshot::default() },
    };
    let kernel = &scrape.kernel;
    let is_synchronised = kernel.state != 5 && !kernel.has(Adjtimex::STA_UNSYNC);
    clock.kernel_synchronised = Some(is_synchronised);
    if clock.lacks_bound() {
        if let Some(Tracking { left_s, last_offset_s, root_s, age_s }) = scrape.tracking {
            let (offset_s, bound_s, age_s) = (left_s, root_s, Some(age_s));
            clock.follow(Followed { offset_s, last_offset_s, bound_s, age_s });
        }
        let stated_s = (is_synchronised && kernel.max_error_us < 16_000_000)
            .then_some(kernel.max_error_us as f64 / 1e6);
        clock.error_bound_s = clock.error_bound_s.or(stated_s);
    }
    clock.synchronised = clock.synchronised.or(clock.kernel_synchronised);
    clock.consumers_here = vec![CONSUMER.to_owned()];
    // A read of the HPET leaves the guest; docs/measurements has the others.
    clock.read_s = Some(if scrape.clocksource == "hpet" { 2e-6 } else { 4e-8 });
    clock.steal_s = Some((scrape.stolen_ns / 10_000_000) as f64 / 100.0);
    clock.cpus = Some(1);
    clock
}

fn of_daemon(scrape: &Scrape, kept: &Kept) -> Snapshot {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let view = &kept.view;
    let together = view.selected.map(|(_, offset)| offset);
    let source = |(name, source): (&str, &keeper::SourceView)| Source {
        name: name.to_owned(),
        state: state(source.state).to_owned(),
        ..Source::default()
    };
    let count = |counts: [(&str, u64); 2]| counts.map(|(name, count)| (name.to_owned(), count));
    let age_s = |at_ns: u64| seconds(kept.now_ns.saturating_sub(at_ns));
    let ages = kept.disruptions.iter().map(|(kind, (_, at_ns))| (kind.clone(), age_s(*at_ns)));
    let selected = view.selected.and_then(|(index, _)| view.sources.get(index)?.offset);
    Snapshot {
        daemon_up: Some(true),
        measured_age_s: selected.map(|offset| age_s(offset.at_monotonic_ns)),
        synchronised: Some(view.clock != ClockState::Unsynchronised),
        holdover: Some(view.clock == ClockState::Holdover),
        offset_s: together.map(|offset| offset.offset_ns as f64 / 1e9),
        offset_bound_s: together.map(|offset| seconds(offset.bound_ns)),
        error_bound_s: together
            .map(|offset| seconds(offset.offset_ns.unsigned_abs().saturating_add(offset.bound_ns))),
        sources: SERVERS.into_iter().zip(&view.sources).map(source).collect(),
        // No rule goes by the counters of disruptions.
        disrupted_age_s: ages.collect(),
        corrections: count([("slew", scrape.counts.slews), ("step", scrape.counts.steps)]).into(),
        not_corrected: count([("failed", 0), ("refused", scrape.counts.refusals)]).into(),
        ..Snapshot::default()
    }
}

const fn state(of: SourceState) -> &'static str {
    match of {
        SourceState::Selected => "selected",
        SourceState::Combined => "combined",
        SourceState::Falseticker => "falseticker",
        SourceState::Candidate => "candidate",
        SourceState::TimeAway => "time-away",
        SourceState::NotMeasured => "not-measured",
        SourceState::Unreachable => "unreachable",
    }
}
