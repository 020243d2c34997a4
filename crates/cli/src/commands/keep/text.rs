//! The log as people read it.

use disruptions::{Disruption, Kind, Size};
use keeper::{Cause, Hand, Policy, Refusal};
use units::calendar::{self, Date};

use super::line::{Basis, Corrected, Event, How, Line, Started, Summary};
use crate::output::event_line::{DAY_S, event_line, time_of_day};
use instruments::figures::{count, signed, time};

/// A line, and what does not fit on it below; without a line end at its end.
pub(super) fn line(line: &Line) -> String {
    let (kind, said) = said(&line.event);
    event_line(line.at_unix_ns, kind, &said)
}

/// How it stands after an event, in one line; none where that has not changed.
pub(super) fn status(event: &Event) -> Option<String> {
    match event {
        Event::Started(started) => Some(format!("keeping by {}", started.sources.join(", "))),
        Event::Corrected(_)
        | Event::Failed { .. }
        | Event::Refused { .. }
        | Event::StandsAside { .. }
        | Event::InOrder(_)
        | Event::Silent { .. }
        | Event::Answers { .. }
        | Event::Summary(_) => {
            let (kind, said) = said(event);
            Some(format!("{kind}: {}", said.first()?))
        }
        Event::Disruption(_)
        | Event::Resumed
        | Event::NotHeard { .. }
        | Event::SetMeanwhile { .. } => None,
    }
}

/// The kind of an event, and what there is to say, line by line.
fn said(event: &Event) -> (&'static str, Vec<String>) {
    match event {
        Event::Started(started) => ("keeping", self::started(started)),
        Event::Disruption(disruption) => ("seen", vec![seen(disruption)]),
        Event::Resumed => ("told", vec!["the machine was stopped, and goes on".into()]),
        Event::NotHeard { why } => ("not heard", vec![why.clone()]),
        Event::Silent { source, why } => ("silent", vec![named(source, why)]),
        Event::Answers { source } => ("answers", vec![source.clone()]),
        Event::Corrected(corrected) => {
            let kind = match corrected.how {
                How::AskedChronyd => "chronyd",
                how => kind(how),
            };
            (kind, self::corrected(corrected))
        }
        Event::Failed { how, by_ns, why } => {
            ("failed", vec![format!("{} by {}: {why}", kind(*how), amount(*by_ns))])
        }
        Event::SetMeanwhile { how, by_ns } => {
            let (what, by) = (kind(*how), amount(*by_ns));
            let said = format!("no {what} by {by}: somebody set the clock meanwhile");
            ("put off", vec![said])
        }
        Event::Refused { basis, why } => {
            let off = format!("off by {}, {}", amount(basis.by_ns), by(basis));
            ("refused", vec![off, refusal(*why)])
        }
        Event::StandsAside { keeper } => {
            let said = format!("{} runs now and keeps the clock: nothing is done", keeper.name());
            ("aside", vec![said])
        }
        Event::InOrder(basis) => {
            ("in order", vec![format!("off by {}, {}", amount(basis.by_ns), by(basis))])
        }
        Event::Summary(summary) => ("summary", self::summary(summary)),
    }
}

/// A reason often begins with the source's name itself.
fn named(source: &str, why: &str) -> String {
    let place = source.split_once(' ').map_or(source, |(_, place)| place);
    match why.contains(place) {
        true => why.to_owned(),
        false => format!("{source}: {why}"),
    }
}

fn started(started: &Started) -> Vec<String> {
    let dry = if started.dry_run { "; dry run: nothing is corrected" } else { "" };
    let each = time(started.interval_s * 1e9);
    let mut said = vec![format!("a look each {each}; times are UTC{dry}")];
    said.extend(started.sources.iter().map(|source| format!("source: {source}")));
    said.extend(
        started.not_used.iter().map(|one| format!("not used: {}: {}", one.source, one.why)),
    );
    said.push(policy(&started.policy));
    if !started.beside.is_empty() {
        let names: Vec<_> = started.beside.iter().map(|keeper| keeper.name()).collect();
        said.push(format!("beside: {}", names.join(", ")));
    }
    said
}

fn policy(policy: &Policy) -> String {
    let whole = |ns: u64| time(ns as f64);
    let back = if policy.never_backward { ", never back" } else { "" };
    let steps =
        format!("{} in a row, then one each {}{back}", policy.burst, whole(policy.min_interval_ns));
    let threshold = whole(policy.step_threshold_ns);
    match policy.hand {
        Hand::Own => format!("steps beyond {threshold}, {steps}; slews below"),
        Hand::Chronyd { step, feed } => {
            let fed = if feed { "chronyd is fed what the sources say" } else { "" };
            let asked = format!("chronyd is asked to step beyond {threshold}, {steps}");
            let said = [fed, if step { &asked } else { "" }];
            said.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
        }
    }
}

fn corrected(corrected: &Corrected) -> Vec<String> {
    let basis = &corrected.basis;
    let what = match (corrected.how, corrected.dry_run) {
        (How::Step, false) => "stepped",
        (How::Step, true) => "would step",
        (How::Slew, false) => "slews",
        (How::Slew, true) => "would slew",
        (How::AskedChronyd, false) => "asked chronyd to step",
        (How::AskedChronyd, true) => "would ask chronyd to step",
    };
    let mut said = vec![format!("{what} {}, {}", amount(basis.by_ns), by(basis))];
    if let (How::Step | How::AskedChronyd, Some(before), Some(after)) =
        (corrected.how, corrected.before_unix_ns, corrected.after_unix_ns)
    {
        said.push(format!("from {}", date_and_time(before)));
        said.push(format!("to {}", date_and_time(after)));
    }
    said
}

/// By whom, how well, and why: `by ntp time.example ± 3.20 ms, after a pause`.
fn by(basis: &Basis) -> String {
    let votes = match (basis.agreeing, basis.of_sources) {
        (agreeing, all) if all > 1 => format!(", {agreeing} of {all} sources agree"),
        _ => String::new(),
    };
    let cause = basis.cause.map_or(String::new(), |cause| format!("; {}", self::cause(cause)));
    format!("by {} ± {}{votes}{cause}", basis.source, time(basis.bound_ns as f64))
}

fn cause(cause: Cause) -> String {
    match cause {
        Cause::Start => "at the start".into(),
        Cause::Told => "the host says the machine was stopped".into(),
        Cause::Disruption(kind) => format!("after {}", what(kind)),
        Cause::SourceMoved(_) => "the source moved against the clock".into(),
    }
}

fn seen(disruption: &Disruption) -> String {
    let figure = |size: Size| format!("{} ± {}", amount(size.ns as i64), time(size.bound_ns));
    let size = disruption.size.map_or(String::new(), |size| format!(": {}", figure(size)));
    let behind = disruption
        .behind
        .map_or(String::new(), |behind| format!("; the clock is behind by {}", figure(behind)));
    format!("{}{size}{behind}", what(disruption.kind))
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Steered => "a change of the frequency",
        Kind::ClockSet => "a setting of the clock",
        Kind::LeapSecond => "a leap second",
        Kind::Suspend => "a sleep",
        Kind::Pause => "a pause",
        Kind::SnapshotRestored => "a restored snapshot",
        Kind::Migrated => "a migration",
        Kind::SourceSwitched => "another clock source",
        Kind::LongSteal => "a long steal",
        Kind::HostStepped => "a step by the host",
        Kind::CounterDisrupted => "a disrupted counter",
        other => other.name(),
    }
}

fn refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::BeyondMaxStep { max_step_ns } => {
            format!("beyond the largest step of {} (--max-step)", time(max_step_ns as f64))
        }
        Refusal::TooOften { wait_ns } => format!(
            "steps enough for now, the next in {} (--burst, --min-interval)",
            time(wait_ns as f64)
        ),
        Refusal::Unconfirmed => "the source has not said it twice".into(),
        Refusal::Contradiction => {
            "the sources contradict each other: three or more outvote a wrong one (--ntp)".into()
        }
        Refusal::WorseSource => {
            "a better source was gone by before it fell silent: the board's clock waits for a \
             disruption"
                .into()
        }
        Refusal::TooFarAhead { takes_s } => format!(
            "too far ahead to be slewed, which would take {:.1} days (--never-backward)",
            takes_s as f64 / DAY_S as f64
        ),
        Refusal::LeftToChronyd => {
            "left to chronyd, which is not asked for this step (--chrony makestep)".into()
        }
    }
}

fn summary(summary: &Summary) -> Vec<String> {
    let mut said = vec![
        format!(
            "kept {:.1} s: {}, {}; {}, {} answered",
            summary.kept_s,
            counted(summary.looks, "look"),
            counted(summary.disruptions, "disruption"),
            counted(summary.asked, "question"),
            count(summary.answered)
        ),
        format!(
            "steps {}, slews {}, refused {}, failed {}",
            summary.steps, summary.slews, summary.refused, summary.failed
        ),
    ];
    if summary.steps > 0 {
        said.push(format!("largest step {}", time(summary.largest_step_ns as f64)));
    }
    if summary.asked_chronyd + summary.fed_chronyd > 0 {
        said.push(format!(
            "chronyd: asked for {}, fed {}",
            counted(summary.asked_chronyd, "step"),
            counted(summary.fed_chronyd, "sample")
        ));
    }
    said
}

/// `1 step`, `2 steps`.
fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

fn kind(how: How) -> &'static str {
    match how {
        How::Step => "step",
        How::Slew => "slew",
        How::AskedChronyd => "ask chronyd",
    }
}

/// To the ms where [`time`] would leave that out: `+2.000 s`, `-41.2 ms`.
fn amount(ns: i64) -> String {
    signed(ns as f64, |size| match size {
        size if size >= 1e9 => format!("{:.3} s", size / 1e9),
        size => time(size),
    })
}

/// `2026-11-21 05:12:03.250`, UTC.
fn date_and_time(unix_ns: u64) -> String {
    let days = unix_ns / 1_000_000_000 / DAY_S;
    let Date { year, month, day } = calendar::date(days.into());
    format!("{year:04}-{month:02}-{day:02} {}", time_of_day(Some(unix_ns)))
}

#[cfg(test)]
mod tests;
