//! Events and the summary as people read them.

mod verdict;

pub(super) use verdict::said as disruption;

use disruptions::steering::{Move, bits};
use disruptions::{Event, LateCause, PageUpdate};
use pvclock::{Hertz, Scale};

use facts::Fact;
use facts::hardware::PvclockPage;
use facts::steering::Adjtimex;

use super::event::{Line, Said, Started};
use super::summary::{PageSummary, Steps, Summary};
use crate::output::event_line::{DAY_S, event_line};
use instruments::figures::{count, exact_time, signed, time};

/// A line, and what does not fit on it below; without a line end at its end.
pub(super) fn line(line: &Line) -> String {
    let (kind, said) = said(&line.event);
    event_line(line.at_unix_ns, kind, &said)
}

/// The kind of an event, and what there is to say, line by line.
fn said(said: &Said) -> (&'static str, Vec<String>) {
    match said {
        Said::Started(started) => ("watching", self::started(started)),
        Said::Disruption(told) => (verdict::heading(told.kind), verdict::said(told)),
        Said::Summary(summary) => ("summary", self::summary(summary)),
        Said::Moved(event) => moved_text(event),
    }
}

/// What moved.
fn moved_text(event: &Event) -> (&'static str, Vec<String>) {
    match event {
        Event::PageUpdate(update) => ("page", self::update(update)),
        Event::PageThere { page } => {
            ("page", vec![format!("there now: {}", self::page(page, None))])
        }
        Event::PageGone { why } => ("page", vec![format!("gone: {why}")]),
        Event::Step { clock, against, step_ns, bound_ns } => {
            let size = format!("{} ± {}", signed(*step_ns, exact_time), exact_time(*bound_ns));
            ("step", vec![format!("{clock} {size} against {against}")])
        }
        Event::Rate { before_hz, after_hz } => {
            let rates = verdict::rates(*before_hz, *after_hz);
            let said = format!("TSC {rates} by CLOCK_MONOTONIC_RAW");
            ("rate", vec![said])
        }
        Event::Source { before, after } => ("source", vec![format!("{before} → {after}")]),
        Event::Adjtimex { moves } => ("adjtimex", moves.iter().map(self::moved).collect()),
        Event::Late { unwatched_s, cause } => {
            ("late", vec![format!("no look for {unwatched_s:.1} s: {}", late(*cause))])
        }
    }
}

/// Why a look came late.
pub(super) fn late(cause: LateCause) -> &'static str {
    match cause {
        LateCause::Stolen => "the host gave the CPU to others",
        LateCause::Waited => "other threads had the CPU",
        LateCause::Stopped => "this process was stopped (SIGSTOP)",
        LateCause::NotRun => "this process was not run; the machine was",
        LateCause::StoodStill => "the machine stood still",
        LateCause::Unknown => "not run, or the machine stood",
    }
}

fn started(started: &Started) -> Vec<String> {
    let cpu = started.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let source = fact(&started.clocksource, Clone::clone);
    let mut said = vec![
        format!("a look each {}{cpu}; times are UTC", span(started.interval_s)),
        format!("source: {source}"),
        format!("page: {}", fact(&started.page, |found| page(found, started.page_age_s))),
        format!("adjtimex: {}", fact(&started.adjtimex, adjtimex)),
    ];
    let watched: Vec<_> = started.signs.iter().filter(|sign| sign.why_not.is_none()).collect();
    if !watched.is_empty() {
        let names: Vec<_> = watched.iter().map(|sign| sign.what.as_str()).collect();
        said.push(format!("signs: {}", names.join(", ")));
    }
    said.extend(
        started
            .signs
            .iter()
            .filter_map(|sign| sign.why_not.as_ref().map(|why| format!("no {}: {why}", sign.what))),
    );
    said.extend(started.not_compared.iter().map(|pair| format!("not compared: {pair}")));
    said
}

fn fact<T>(fact: &Fact<T>, text: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => text(value),
        Fact::Unknown(why) => format!("not watched: {why}"),
    }
}

/// A page's state: `version 32, stamp 40 min 3 s old, TSC 2445.428000 MHz,
/// TSC_STABLE`.
pub(super) fn page(page: &PvclockPage, age_s: Option<f64>) -> String {
    let age = age_s.map_or(String::new(), |age| format!(", stamp {} old", span(age)));
    let scale = Scale::from_parts(page.tsc_to_system_mul, page.tsc_shift);
    let rate = match scale.to_hertz() {
        Some(Hertz(hz)) => format!("TSC {:.6} MHz", hz as f64 / 1e6),
        None => "switched off".into(),
    };
    format!("version {}{age}, {rate}{}", page.version, flags(page.flags))
}

fn flags(flags: u8) -> String {
    const NAMES: [(u8, &str); 3] =
        [(1, "TSC_STABLE"), (2, "GUEST_STOPPED"), (4, "COUNTS_FROM_ZERO")];
    let set = NAMES.iter().filter(|(bit, _)| flags & bit != 0);
    set.map(|(_, name)| format!(", {name}")).collect()
}

/// adjtimex's state: `frequency -1.500 ppm, offset 0 ns, UNSYNC`.
pub(super) fn adjtimex(state: &Adjtimex) -> String {
    let bits: String = bits(state.status).iter().map(|bit| format!(", {bit}")).collect();
    format!(
        "frequency {:+.3} ppm, offset {}, max error {}{bits}",
        state.frequency_ppm,
        signed(state.offset_ns as f64, exact_time),
        time(state.max_error_us as f64 * 1e3)
    )
}

fn update(update: &PageUpdate) -> Vec<String> {
    let version = update.changed.iter().find(|change| change.field == "version");
    let mut said = vec![match version {
        Some(change) => format!("version {} → {}", change.before, change.after),
        None => format!("version {} still", update.version),
    }];
    said[0].push_str(&match (update.step_ns, &update.no_step) {
        (Some(step), _) => format!(", system_time stepped {}", signed(step as f64, exact_time)),
        (None, why) => format!(", no time to compare: {}", why.as_deref().unwrap_or("unknown")),
    });
    match update.updates {
        Some(0 | 1) => {}
        Some(updates) => said.push(format!("{updates} updates since the last look")),
        None => said.push("the version went back: the page was written anew".into()),
    }
    for change in update.changed.iter().filter(|change| change.field != "version") {
        said.push(format!("{} {} → {}", change.field, change.before, change.after));
    }
    said.extend(update.since_last_s.map(|s| format!("{} after the update before", span(s))));
    said
}

pub(super) fn moved(moved: &Move) -> String {
    match moved {
        Move::Frequency { before_ppm, after_ppm } => {
            format!("frequency {before_ppm:+.3} → {after_ppm:+.3} ppm")
        }
        Move::Tick { before_us, after_us } => format!("tick {before_us} → {after_us} µs"),
        Move::Offset { before_ns, after_ns } => {
            format!(
                "offset {} → {}",
                signed(*before_ns as f64, exact_time),
                signed(*after_ns as f64, exact_time)
            )
        }
        Move::Tai { before_s, after_s } => format!("TAI - UTC {before_s} → {after_s} s"),
        Move::Status { set, cleared } => {
            let part = |names: &[String], verb: &str| {
                (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")))
            };
            let parts: Vec<_> =
                [part(set, "set"), part(cleared, "cleared")].into_iter().flatten().collect();
            format!("status: {}", parts.join("; "))
        }
        Move::Leap { before, after } => format!("leap second: {before} → {after}"),
    }
}

/// All together, line by line.
pub(super) fn summary(summary: &Summary) -> Vec<String> {
    let Summary { source_changes, rate_changes, adjtimex_moves, .. } = summary;
    let mut said = vec![format!(
        "watched {}: {} looks, at most {} apart",
        span(summary.watched_s),
        count(summary.looks),
        span(summary.longest_unwatched_s)
    )];
    said.push(match summary.disruptions.len() {
        0 => "disruptions: none".into(),
        _ => format!("disruptions: {}", disruptions(summary)),
    });
    if let Some(lost) = summary.not_in_journal.filter(|lost| *lost > 0) {
        said.push(format!("the journal did not take {} of them", count(lost)));
    }
    match &summary.page {
        Some(page) => said.extend(page_summary(page)),
        None => said.push("page: not read".into()),
    }
    match &summary.steps[..] {
        [] => said.push("steps: none".into()),
        steps => said.extend(steps.iter().map(steps_summary)),
    }
    said.push(format!(
        "changes: source {source_changes}, TSC rate {rate_changes}, adjtimex {adjtimex_moves}"
    ));
    said
}

/// `clock-set 2, pause 1`
fn disruptions(summary: &Summary) -> String {
    let each = summary.disruptions.iter().map(|(kind, times)| format!("{} {times}", kind.name()));
    each.collect::<Vec<_>>().join(", ")
}

fn page_summary(page: &PageSummary) -> Vec<String> {
    let mut said = vec![
        format!("page: version {}; {} updates seen", page.version, page.updates),
        match page.updates_per_hour {
            Some(rate) => format!("updates an hour: {rate:.1}"),
            None => "updates an hour: not told by a watch under 1 min".into(),
        },
    ];
    let least = if page.longest_gap_is_open { "at least " } else { "" };
    said.push(format!("longest gap between updates: {least}{}", span(page.longest_gap_s)));
    if let Some(step) = page.largest_step_ns {
        said.push(format!("largest step of an update: {}", signed(step as f64, exact_time)));
    }
    said
}

fn steps_summary(steps: &Steps) -> String {
    format!(
        "steps: {} of {} against {}, largest {}, sum {}",
        steps.steps,
        steps.clock,
        steps.against,
        signed(steps.largest_ns, exact_time),
        signed(steps.sum_ns, exact_time)
    )
}

/// A stretch of time: `100 ms`, `5.0 s`, `40 min 3 s`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn span(s: f64) -> String {
    let whole = s.round() as u64;
    match whole {
        _ if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        _ if s < 59.95 => format!("{s:.1} s"),
        0..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..DAY_S => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / DAY_S, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests;
