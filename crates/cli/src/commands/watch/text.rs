//! Events and the summary as people read them.

use disruptions::steering::bits;
use disruptions::text::{self as disruption, span};
use disruptions::{Event, ObservedPageUpdate};
use facts::Fact;
use facts::hardware::PvclockPage;
use facts::steering::Adjtimex;
use instruments::figures::{count, exact_time, signed, time};
use pvclock::{Hertz, Scale};

use super::event::{Line, WatchEvent, WatchStart};
use super::event::{PageSummary, PairSteps, WatchSummary};
use crate::output::event_line;
use crate::output::number_of;

/// A line, continued below where it is too long; without a final line end.
pub(super) fn line(line: &Line) -> String {
    let (label, lines) = describe(&line.event);
    event_line(line.at_unix_ns, label, &lines)
}

/// The label of an event, and its text line by line.
fn describe(event: &WatchEvent) -> (&'static str, Vec<String>) {
    match event {
        WatchEvent::Started(started) => ("started", self::started(started)),
        WatchEvent::Disruption(it) => (disruption::label(it.kinds), disruption::lines(it)),
        WatchEvent::Summary(summary) => ("summary", self::summary(summary)),
        WatchEvent::Change(event) => change(event),
    }
}

fn change(event: &Event) -> (&'static str, Vec<String>) {
    match event {
        Event::PageUpdate(update) => ("page", self::update(update)),
        Event::PageAppeared { page } => {
            ("page", vec![format!("readable now: {}", self::page(page, None))])
        }
        Event::PageGone { why } => ("page", vec![format!("no longer readable: {why}")]),
        Event::Change(evidence) => {
            let (label, text) = (evidence.into(), disruption::observed(evidence));
            // The label says it.
            (label, vec![text.replacen("adjtimex: ", "", 1)])
        }
        // Events that this version does not know.
        other => ("event", vec![format!("{other:?}")]),
    }
}

fn started(started: &WatchStart) -> Vec<String> {
    let cpu = started.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let source = fact(&started.clocksource, Clone::clone);
    let missing = started.probes.iter().filter(|status| status.error.is_some()).count();
    let missing = match missing {
        0 => String::new(),
        _ => format!(" without {missing} of {} probes", started.probes.len()),
    };
    let mut lines = vec![
        format!("watching every {}{cpu}{missing}; times are UTC", span(started.interval_s)),
        format!("clocksource: {source}"),
        format!("page: {}", fact(&started.page, |found| page(found, started.page_age_s))),
        format!("adjtimex: {}", fact(&started.adjtimex, adjtimex)),
    ];
    let readable: Vec<_> = started
        .probes
        .iter()
        .filter(|status| status.error.is_none())
        .map(|status| status.probe.as_str())
        .collect();
    if !readable.is_empty() {
        lines.push(format!("probes: {}", readable.join(", ")));
    }
    for status in &started.probes {
        lines.extend(status.error.as_ref().map(|error| format!("no {}: {error}", status.probe)));
    }
    lines.extend(started.not_compared.iter().map(|pair| format!("not compared: {pair}")));
    lines
}

fn fact<T>(fact: &Fact<T>, text: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => text(value),
        Fact::Unknown(why) => format!("not watched: {why}"),
    }
}

/// A page's state: `version 32, stamp 40 min 3 s old, TSC 2445.428000 MHz,
/// TSC_STABLE`.
fn page(page: &PvclockPage, age_s: Option<f64>) -> String {
    let age = age_s.map_or(String::new(), |age| format!(", stamp {} old", span(age)));
    let scale = Scale::from_parts(page.tsc_to_system_mul, page.tsc_shift);
    let rate = match scale.to_hertz() {
        Some(Hertz(hz)) => format!("TSC {:.6} MHz", hz as f64 / 1e6),
        None => "not valid".into(),
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
fn adjtimex(state: &Adjtimex) -> String {
    let bits: String = bits(state.status).iter().map(|bit| format!(", {bit}")).collect();
    format!(
        "frequency {:+.3} ppm, offset {}, max error {}{bits}",
        state.frequency_ppm,
        signed(state.offset_ns as f64, exact_time),
        time(state.max_error_us as f64 * 1e3)
    )
}

fn update(update: &ObservedPageUpdate) -> Vec<String> {
    let version = update.changed.iter().find(|change| change.field == "version");
    let mut lines = vec![match version {
        Some(change) => format!("version {} → {}", change.before, change.after),
        None => format!("version {} unchanged", update.version),
    }];
    lines[0].push_str(&match (update.step_ns, &update.no_step) {
        (Some(step), _) => format!(", system_time stepped {}", signed(step as f64, exact_time)),
        (None, why) => format!(", step unknown: {}", why.as_deref().unwrap_or("unknown")),
    });
    match update.updates {
        Some(0 | 1) => {}
        Some(updates) => lines.push(format!("{updates} updates since the last sample")),
        None => lines.push("the version went back: the page was reset".into()),
    }
    for change in update.changed.iter().filter(|change| change.field != "version") {
        lines.push(format!("{} {} → {}", change.field, change.before, change.after));
    }
    lines.extend(update.since_last_s.map(|s| format!("{} after the previous update", span(s))));
    lines
}

/// The summary, line by line.
fn summary(summary: &WatchSummary) -> Vec<String> {
    let WatchSummary { clocksource_changes, rate_changes, adjtimex_changes, .. } = summary;
    let mut lines = vec![disruption::counts(&summary.disruptions)];
    lines.push(format!(
        "ran {}: {}, longest interval {}",
        span(summary.ran_s),
        number_of(summary.samples, "sample"),
        span(summary.longest_interval_s)
    ));
    if let Some(lost) = summary.lost_journal_entries.filter(|lost| *lost > 0) {
        lines.push(format!("the journal did not accept {} of them", count(lost)));
    }
    match &summary.page {
        Some(page) => lines.extend(page_summary(page)),
        None => lines.push("page: not readable".into()),
    }
    match &summary.steps[..] {
        [] => lines.push("steps: none".into()),
        steps => lines.extend(steps.iter().map(steps_summary)),
    }
    lines.push(format!(
        "changes: clocksource {clocksource_changes}, TSC rate {rate_changes}, adjtimex \
         {adjtimex_changes}"
    ));
    lines
}

fn page_summary(page: &PageSummary) -> Vec<String> {
    let mut lines = vec![
        format!("page: version {}; {}", page.version, number_of(page.updates, "update")),
        match page.updates_per_hour {
            Some(rate) => format!("updates per hour: {rate:.1}"),
            None => "updates per hour: not known from a watch under 1 min".into(),
        },
    ];
    let least = if page.longest_gap_is_open { "at least " } else { "" };
    lines.push(format!("longest gap between updates: {least}{}", span(page.longest_gap_s)));
    if let Some(step) = page.largest_step_ns {
        lines.push(format!("largest step of an update: {}", signed(step as f64, exact_time)));
    }
    lines
}

fn steps_summary(steps: &PairSteps) -> String {
    format!(
        "steps: {} of {} against {}, largest {}, sum {}",
        steps.steps,
        steps.clock,
        steps.against,
        signed(steps.largest_ns, exact_time),
        signed(steps.sum_ns, exact_time)
    )
}

#[cfg(test)]
mod tests;
