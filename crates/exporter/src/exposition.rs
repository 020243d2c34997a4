//! Samples as OpenMetrics text.

use std::fmt;

use fleet::{Kind, METRICS, Sample, Snapshot, samples};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What the text is, in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The exposition of a scrape.
pub fn exposition(of: &Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(samples(of))));
    let mut exposition = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut exposition, &registry);
    exposition
}

/// The same in Prometheus' own format, which node_exporter's textfile collector reads: it
/// names a counter by its sample, and knows no end.
pub fn textfile(of: &Snapshot) -> String {
    let mut text = exposition(of);
    text.truncate(text.trim_end_matches("# EOF\n").len());
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Counter) {
        let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        for line in ["HELP", "TYPE"] {
            let (from, to) = (format!("# {line} {family} "), format!("# {line} {} ", metric.name));
            text = text.replace(&from, &to);
        }
    }
    text
}

#[derive(Debug)]
struct Scrape(Vec<Sample>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let is_one = |one: &Sample, other: &Sample| one.metric == other.metric;
        for of_metric in self.0.chunk_by(is_one) {
            let Some(metric) = of_metric.first().map(|sample| sample.metric) else { continue };
            let (name, kind) = match metric.kind {
                Kind::Gauge => (metric.name, MetricType::Gauge),
                // The encoder adds it.
                Kind::Counter => {
                    (metric.name.strip_suffix("_total").unwrap_or(metric.name), MetricType::Counter)
                }
            };
            let mut described = encoder.encode_descriptor(name, metric.help, None, kind)?;
            for sample in of_metric {
                if metric.labels.is_empty() {
                    encode(&mut described, metric.kind, sample.value)?;
                    continue;
                }
                let values = sample.labels.iter().map(String::as_str);
                let labels: Vec<_> = metric.labels.iter().copied().zip(values).collect();
                encode(&mut described.encode_family(&labels)?, metric.kind, sample.value)?;
            }
        }
        Ok(())
    }
}

fn encode(into: &mut MetricEncoder<'_>, kind: Kind, value: f64) -> Result<(), fmt::Error> {
    match kind {
        Kind::Gauge => into.encode_gauge(&value),
        Kind::Counter => into.encode_counter::<NoLabelSet, _, u64>(&value, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counters_and_labels_are_openmetrics() {
        let snapshot = Snapshot {
            version: "1.2".into(),
            disruptions: BTreeMap::from([("a \"b\"\n\\".to_owned(), 3)]),
            daemon_up: Some(false),
            ..Snapshot::default()
        };
        assert_eq!(
            exposition(&snapshot),
            "# HELP parachron_build_info The exporter, 1\n\
             # TYPE parachron_build_info gauge\n\
             parachron_build_info{version=\"1.2\"} 1.0\n\
             # HELP parachron_daemon_up 1 where parachrond replies\n\
             # TYPE parachron_daemon_up gauge\n\
             parachron_daemon_up 0.0\n\
             # HELP parachron_disruptions What happened to the clock, by kind\n\
             # TYPE parachron_disruptions counter\n\
             parachron_disruptions_total{kind=\"a \\\"b\\\"\\n\\\\\"} 3.0\n\
             # EOF\n"
        );
        let text = textfile(&snapshot);
        assert!(text.contains("\n# TYPE parachron_disruptions_total counter\n"), "{text}");
        assert!(!text.contains("EOF"));
    }
}
