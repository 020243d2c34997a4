//! The samples of a scrape.

use std::collections::BTreeMap;

use crate::fleet::consumers::margins;
use crate::fleet::metrics::{Metric, named};
use crate::fleet::snapshot::Snapshot;

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Of this metric.
    pub metric: &'static Metric,
    /// Its labels' values, in the metric's order.
    pub labels: Vec<String>,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// The samples of a machine, those of a metric one after the other.
pub fn samples(clock: &Snapshot) -> Vec<MetricSample> {
    let mut all = SampleList(Vec::new());
    all.push("parachron_build_info", &[&clock.version], Some(1.0));
    all.flag("parachron_daemon_up", clock.daemon_up);
    all.flag("parachron_dry_run", clock.dry_run);
    all.flag("parachron_clock_synchronised", clock.synchronised);
    all.flag("parachron_clock_holdover", clock.holdover);
    all.push("parachron_clock_offset_seconds", &[], clock.offset_s);
    all.push("parachron_clock_offset_bound_seconds", &[], clock.offset_bound_s);
    all.push("parachron_clock_error_bound_seconds", &[], clock.error_bound_s);
    all.push("parachron_clock_measured_age_seconds", &[], clock.measured_age_s);
    for (consumer, margin_s) in margins(clock) {
        all.push("parachron_clock_margin_seconds", &[consumer.name], Some(margin_s));
    }
    for name in &clock.consumers_here {
        all.push("parachron_clock_consumer_here", &[name], Some(1.0));
    }
    all.flag("parachron_kernel_synchronised", clock.kernel_synchronised);
    all.push("parachron_kernel_max_error_seconds", &[], clock.kernel_max_error_s);
    all.push("parachron_clock_frequency_correction_ratio", &[], clock.frequency_correction);
    for source in &clock.sources {
        all.push("parachron_source_state", &[&source.name, &source.state], Some(1.0));
    }
    for source in &clock.sources {
        all.push("parachron_source_offset_seconds", &[&source.name], source.offset_s);
    }
    for source in &clock.sources {
        all.push("parachron_source_offset_bound_seconds", &[&source.name], source.bound_s);
    }
    for source in &clock.sources {
        all.push("parachron_source_age_seconds", &[&source.name], source.age_s);
    }
    all.counts("parachron_disruptions_total", &by_kind(&clock.disruptions, |a, b| a + b));
    for (kind, age_s) in by_kind(&clock.disrupted_age_s, f64::min) {
        all.push("parachron_disruption_age_seconds", &[&kind], Some(age_s));
    }
    all.counts("parachron_corrections_total", &clock.corrections);
    all.counts("parachron_corrections_not_made_total", &clock.not_corrected);
    if let Some(clocksource) = &clock.clocksource {
        all.push("parachron_clocksource_info", &[clocksource], Some(1.0));
    }
    all.push("parachron_clock_read_seconds", &[], clock.read_s);
    all.push("parachron_steal_seconds_total", &[], clock.steal_s);
    all.push("parachron_cpus", &[], clock.cpus.map(f64::from));
    for finding in &clock.findings {
        all.push("parachron_finding", &[&finding.rule, &finding.severity], Some(1.0));
    }
    all.0
}

/// The values of each kind alone: an event of which the kind is one of several, `pause|migrated`,
/// counts for each of them.
fn by_kind<T: Copy>(values: &BTreeMap<String, T>, merge: fn(T, T) -> T) -> BTreeMap<String, T> {
    let mut split = BTreeMap::new();
    for (kinds, value) in values {
        for kind in kinds.split('|') {
            let merged = split.get(kind).map_or(*value, |other| merge(*other, *value));
            split.insert(kind.to_owned(), merged);
        }
    }
    split
}

struct SampleList(Vec<MetricSample>);

impl SampleList {
    fn push(&mut self, name: &str, labels: &[&str], value: Option<f64>) {
        let metric = named(name);
        debug_assert_eq!((metric.name, metric.labels.len()), (name, labels.len()));
        let labels = || labels.iter().map(|&label| label.to_owned()).collect();
        self.0.extend(value.map(|value| MetricSample { metric, labels: labels(), value }));
    }

    fn counts(&mut self, name: &str, counts: &BTreeMap<String, u64>) {
        for (label, count) in counts {
            self.push(name, &[label], Some(*count as f64));
        }
    }

    fn flag(&mut self, name: &str, is: Option<bool>) {
        self.push(name, &[], is.map(|is| f64::from(u8::from(is))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::metrics::METRICS;
    use crate::fleet::snapshot::{MachineNames, RuleFinding, Source};

    fn whole() -> Snapshot {
        let counts = || BTreeMap::from([("pause".to_owned(), 2)]);
        Snapshot {
            version: "1".into(),
            daemon_up: Some(true),
            dry_run: Some(false),
            synchronised: Some(true),
            holdover: Some(false),
            offset_s: Some(1e-6),
            offset_bound_s: Some(2e-6),
            error_bound_s: Some(3e-6),
            measured_age_s: Some(4.0),
            kernel_synchronised: Some(true),
            kernel_max_error_s: Some(1e-3),
            frequency_correction: Some(-2e-6),
            sources: vec![Source {
                name: "ntp a".into(),
                state: "selected".into(),
                offset_s: Some(0.0),
                bound_s: Some(1e-6),
                age_s: Some(1.0),
            }],
            disruptions: counts(),
            disrupted_age_s: BTreeMap::from([("pause".to_owned(), 2.0)]),
            corrections: counts(),
            not_corrected: counts(),
            clocksource: Some("tsc".into()),
            read_s: Some(3e-8),
            steal_s: Some(1.5),
            cpus: Some(2),
            machine: MachineNames::default(),
            findings: vec![RuleFinding { rule: "slow".into(), severity: "warning".into() }],
            consumers_here: vec!["ceph".into()],
        }
    }

    #[test]
    fn every_metric_has_a_sample_and_those_of_one_are_together() {
        let all = samples(&whole());
        let mut names: Vec<_> = all.iter().map(|sample| sample.metric.name).collect();
        names.dedup();
        let expected: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn an_event_of_several_possible_kinds_counts_for_each() {
        let named = |counts: &[(&str, u64)]| {
            counts.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
        };
        let counts: BTreeMap<String, u64> = named(&[("pause", 2), ("pause|migrated", 3)]);
        assert_eq!(by_kind(&counts, |a, b| a + b), named(&[("migrated", 3), ("pause", 5)]));
    }

    #[test]
    fn what_is_not_known_has_no_sample() {
        let names: Vec<_> =
            samples(&Snapshot::default()).iter().map(|sample| sample.metric.name).collect();
        assert_eq!(names, ["parachron_build_info"]);
    }
}
