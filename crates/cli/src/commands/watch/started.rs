//! The first line: what is watched, what is not, and why not.

use std::time::Duration;

use disruptions::{MONOTONIC, RAW, SLEW_SEEN_NS, TSC, page_fact, seconds};
use facts::{Fact, Sample};
use inspect::sampler::Sampler;
use instruments::steps::page::age_ns;

use super::event::{self, Line, ProbeStatus, WatchEvent, WatchStart};

pub(super) fn started(interval: Duration, sampler: &Sampler, sample: &Sample) -> Line {
    let age = sample.page.value().zip(sample.tsc).and_then(|(page, tsc)| age_ns(page, tsc).ok());
    let mut not_compared = Vec::new();
    if sample.raw.is_none() {
        not_compared.push(format!("{RAW} with {TSC}: this process may not read the TSC"));
    }
    if interval.as_nanos() > u128::from(SLEW_SEEN_NS) {
        not_compared.push(format!("{MONOTONIC} with {RAW}: the sampling interval is over 1 s"));
    }
    let started = WatchStart {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interval_s: interval.as_secs_f64(),
        cpu: sampler.cpu(),
        clocksource: sample.source.clone(),
        page: sample.page.clone().map(|info| page_fact(&info)),
        page_age_s: age.map(seconds),
        adjtimex: sample.adjtimex.clone(),
        probes: probes(sample),
        not_compared,
    };
    event::line(sample.monotonic_ns, WatchEvent::Started(Box::new(started)), sample)
}

fn probes(sample: &Sample) -> Vec<ProbeStatus> {
    vec![
        status("VMClock", &sample.vmclock),
        status("RTC", &sample.rtc),
        status("kernel log", &sample.log),
        status("NEW_VMGENID", &sample.new_generation),
        status("clock sets", &sample.was_set),
        status("steal", &sample.activity),
        status("run delay", &sample.thread),
    ]
}

fn status<T>(probe: &str, fact: &Fact<T>) -> ProbeStatus {
    ProbeStatus { probe: probe.to_owned(), error: fact.unknown().map(ToString::to_string) }
}
