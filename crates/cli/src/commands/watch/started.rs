//! The first line: what is watched, what is not, and why not.

use std::time::Duration;

use disruptions::{MONOTONIC, RAW, SLEW_SEEN_NS, TSC, page_fact};
use facts::Fact;
use facts::Sample;
use instruments::steps::page::age_ns;

use super::event::{Line, Said, Sign, Started, seconds};
use platform::sampler::Sampler;

pub(super) fn started(interval: Duration, sampler: &Sampler, look: &Sample) -> Line {
    let age = look.page.known().zip(look.tsc).and_then(|(page, tsc)| age_ns(page, tsc).ok());
    let mut not_compared = Vec::new();
    if look.raw.is_none() {
        not_compared.push(format!("{RAW} with {TSC}: reading it is forbidden to this process"));
    }
    if interval.as_nanos() > u128::from(SLEW_SEEN_NS) {
        not_compared.push(format!("{MONOTONIC} with {RAW}: looks are more than 1 s apart"));
    }
    let started = Started {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interval_s: interval.as_secs_f64(),
        cpu: sampler.cpu(),
        clocksource: look.source.clone(),
        page: look.page.clone().map(|info| page_fact(&info)),
        page_age_s: age.map(seconds),
        adjtimex: look.adjtimex.clone(),
        signs: signs(look),
        not_compared,
    };
    Line::at(look.monotonic_ns, Said::Started(Box::new(started)), look)
}

/// What else can tell what happened.
fn signs(look: &Sample) -> Vec<Sign> {
    vec![
        sign("VMClock", &look.vmclock),
        sign("RTC", &look.rtc),
        sign("kernel log", &look.log),
        sign("NEW_VMGENID", &look.new_generation),
        sign("clock sets", &look.was_set),
        sign("steal", &look.activity),
        sign("run delay", &look.thread),
    ]
}

fn sign<T>(what: &str, fact: &Fact<T>) -> Sign {
    Sign { what: what.to_owned(), why_not: fact.unknown().map(ToString::to_string) }
}
