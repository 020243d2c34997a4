//! Samples as OpenMetrics text.

use std::fmt;

use crate::fleet::{Kind, MetricSample};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The media type of OpenMetrics text in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The samples as OpenMetrics text.
pub fn openmetrics(samples: Vec<MetricSample>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(SampleCollector(samples)));
    let mut exposition = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut exposition, &registry);
    exposition
}

/// The samples in Prometheus' own format, which node_exporter's textfile collector reads: a
/// counter has the name of its sample, and the text has no end marker.
pub fn textfile(samples: Vec<MetricSample>) -> String {
    let counters: Vec<_> = samples
        .iter()
        .map(|sample| sample.metric)
        .filter(|metric| metric.kind == Kind::Counter)
        .collect();
    let mut text = openmetrics(samples);
    text.truncate(text.trim_end_matches("# EOF\n").len());
    for metric in counters {
        for line in ["HELP", "TYPE"] {
            let (from, to) = (
                format!("# {line} {} ", family(metric.name)),
                format!("# {line} {} ", metric.name),
            );
            text = text.replace(&from, &to);
        }
    }
    text
}

/// A counter's name without the suffix of its sample.
fn family(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

#[derive(Debug)]
struct SampleCollector(Vec<MetricSample>);

impl Collector for SampleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let same_metric = |one: &MetricSample, other: &MetricSample| one.metric == other.metric;
        for samples in self.0.chunk_by(same_metric) {
            let Some(metric) = samples.first().map(|sample| sample.metric) else { continue };
            let (name, kind) = match metric.kind {
                Kind::Gauge => (metric.name, MetricType::Gauge),
                // The encoder adds `_total`.
                Kind::Counter => (family(metric.name), MetricType::Counter),
            };
            let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
            for sample in samples {
                if metric.labels.is_empty() {
                    encode(&mut family, metric.kind, sample.value)?;
                    continue;
                }
                let values = sample.labels.iter().map(String::as_str);
                let labels: Vec<_> = metric.labels.iter().copied().zip(values).collect();
                encode(&mut family.encode_family(&labels)?, metric.kind, sample.value)?;
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
mod tests;
