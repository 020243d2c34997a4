//! Events in words: for the log, the journal and the service manager. Options
//! and keys of the configuration file have one name, and so do messages: `--max-step`
//! and `max-step` are both "max-step".

use disruptions::text::{self as disruption, DAY_S, time_of_day};
use facts::parse::printable;
use facts::steering::TimeKeeperKind;
use instruments::figures::{count, signed, time};
use keeper::event::{Basis, Corrected, CorrectionMethod, KeeperEvent, KeeperStart, KeeperSummary};
use keeper::{CorrectionCause, Corrector, GateCause, GateOpening, Policy, Refusal};
use pvclock::units::calendar::{self, Date};

use crate::journal::Priority;

/// What log, journal, status and service manager show of an event.
#[derive(Debug)]
pub struct EventDescription {
    /// Its kind, in words.
    pub kind: String,
    /// How much it is to be noticed.
    pub priority: Priority,
    /// It is of what happened to the clock and was done about it, the last of which
    /// `parachron status` shows.
    pub is_of_the_clock: bool,
    /// The message, line by line.
    pub message: Vec<String>,
}

impl EventDescription {
    /// In one line, however long: `step: +2.000 s, selected source …`.
    pub fn one_line(&self) -> String {
        printable(&format!("{}: {}", self.kind, self.message.join("; ")))
    }
}

/// The table of events: kind, priority, whether it is of the clock, message.
pub fn describe(event: &KeeperEvent) -> EventDescription {
    const CLOCK: bool = true;
    const ELSE: bool = false;
    use Priority::{Error, Info, Notice, Warning};
    let (kind, priority, is_of_the_clock, message) = match event {
        KeeperEvent::Started(started) => ("started", Info, ELSE, self::start(started)),
        KeeperEvent::Disruption(disruption) => (
            "disruption",
            Priority::from_kinds(disruption.kinds),
            CLOCK,
            disruption::lines(disruption),
        ),
        KeeperEvent::HostResumed => ("host", Notice, CLOCK, vec!["resumed".into()]),
        KeeperEvent::HostMessageRejected { why } => {
            ("host message rejected", Warning, ELSE, vec![why.clone()])
        }
        KeeperEvent::SourceUnreachable { source, why } => {
            ("source unreachable", Warning, ELSE, vec![with_source(source, why)])
        }
        KeeperEvent::SourceReachable { source } => {
            ("source reachable", Notice, ELSE, vec![source.clone()])
        }
        KeeperEvent::Corrected(corrected) => {
            (name(corrected.how), Notice, CLOCK, self::correction(corrected))
        }
        KeeperEvent::Failed { how, by_ns, why } => {
            (name(*how), Error, CLOCK, vec![format!("{}: {why}", amount(*by_ns))])
        }
        KeeperEvent::Cancelled { how, by_ns } => {
            let message = format!("{}: another process set the clock", amount(*by_ns));
            (name(*how), Notice, CLOCK, vec![message])
        }
        KeeperEvent::Refused { basis, why } => {
            ("refused", Warning, CLOCK, vec![refusal(*why), offset(basis)])
        }
        KeeperEvent::DaemonBeside { daemon: Some(daemon), unit } => {
            ("beside", Notice, CLOCK, vec![beside(*daemon, unit.as_deref())])
        }
        KeeperEvent::DaemonBeside { daemon: None, .. } => {
            ("alone", Notice, CLOCK, vec!["no other daemon disciplines the clock now".into()])
        }
        KeeperEvent::TickReset { tick_us, frequency_ppm } => {
            ("tick reset", Notice, CLOCK, vec![tick(*tick_us, *frequency_ppm)])
        }
        KeeperEvent::FrequencyFile { why } => ("frequency file", Warning, ELSE, vec![why.clone()]),
        KeeperEvent::LeapSecond { by_s, dry_run } => {
            ("leap second", Notice, CLOCK, vec![leap(*by_s, *dry_run)])
        }
        KeeperEvent::WrongRate { ppm } => ("wrong rate", Warning, CLOCK, wrong_rate(*ppm)),
        KeeperEvent::Synchronised(basis) => ("synchronised", Info, ELSE, vec![offset(basis)]),
        KeeperEvent::GateClosed { cause, groups, dry_run } => {
            let kind = if *dry_run { "gate would close" } else { "gate closed" };
            (kind, Notice, CLOCK, vec![closing(*cause, *groups, *dry_run)])
        }
        KeeperEvent::GateOpened { why, held_ns, dry_run } => {
            let kind = if *dry_run { "gate would open" } else { "gate opened" };
            let is_failure = matches!(why, GateOpening::Limit | GateOpening::Forced);
            let priority = if is_failure { Error } else { Notice };
            (kind, priority, CLOCK, vec![opening(*why, *held_ns)])
        }
        KeeperEvent::GateFailed { why } => ("gate failed", Error, CLOCK, vec![why.clone()]),
        KeeperEvent::Reloaded(now) => ("reloaded", Notice, ELSE, self::start(now)),
        KeeperEvent::ReloadRefused { why } => ("reload refused", Error, CLOCK, vec![why.clone()]),
        KeeperEvent::Summary(summary) => ("summary", Info, ELSE, self::summary(summary)),
    };
    EventDescription {
        kind: format!("{kind}{}", outcome(event)),
        priority,
        is_of_the_clock,
        message,
    }
}

/// What follows the name of a correction that was not made.
fn outcome(event: &KeeperEvent) -> &'static str {
    match event {
        KeeperEvent::Failed { .. } => " failed",
        KeeperEvent::Cancelled { .. } => " cancelled",
        _ => "",
    }
}

fn beside(daemon: TimeKeeperKind, unit: Option<&str>) -> String {
    let unit = unit.map_or(String::new(), |unit| format!(" ({unit})"));
    format!("{}{unit} disciplines the clock; only steps", process(daemon))
}

fn closing(cause: GateCause, groups: usize, dry_run: bool) -> String {
    let cause = match cause {
        GateCause::Requested => "requested for a snapshot",
        GateCause::Disrupted => "the clock was disrupted",
    };
    let frozen = if dry_run { "to freeze" } else { "frozen" };
    format!("{cause}; {} {frozen}", quantity(groups as u64, "control group", "control groups"))
}

fn opening(why: GateOpening, held_ns: u64) -> String {
    let held = time(held_ns as f64);
    match why {
        GateOpening::Right { error_ns } => {
            format!("after {held}: the clock is off by {} at most", time(error_ns as f64))
        }
        GateOpening::Limit => format!(
            "after {held}: the limit has passed, and the clock is not known to be right; run \
             `parachron status`, or raise gate-limit"
        ),
        GateOpening::Forced => format!(
            "after {held}: another process thawed the control groups or the gate's watcher could \
             not run, and the clock is not known to be right; run `parachron status`"
        ),
        GateOpening::Ended => format!("after {held}: the daemon ends"),
    }
}

/// A reason often begins with the source's name itself.
fn with_source(source: &str, why: &str) -> String {
    let place = source.split_once(' ').map_or(source, |(_, place)| place);
    if why.contains(place) { why.to_owned() } else { format!("{source}: {why}") }
}

fn start(started: &KeeperStart) -> Vec<String> {
    let each = disruption::span(started.interval_s);
    let mut message = vec![format!("sampling every {each}; times are UTC")];
    message.extend(started.dry_run.then(|| "dry run: nothing is corrected".to_owned()));
    let role = |source: &str| if source == "rtc" { " (measures time away)" } else { "" };
    let sources = started.sources.iter();
    message.extend(sources.map(|source| format!("source: {source}{}", role(source))));
    message.extend(started.smearing.iter().map(|one| {
        let does = if one.is_certain { "spreads" } else { "may spread" };
        format!("{} {does} leap seconds over hours and is then up to 0.5 s off UTC", one.source)
    }));
    let not_used = started.not_used.iter();
    message.extend(not_used.map(|one| format!("not used: {}: {}", one.source, one.why)));
    message.push(policy(&started.policy));
    if !started.other_daemons.is_empty() {
        let names: Vec<_> = started.other_daemons.iter().map(|daemon| daemon.name()).collect();
        message.push(format!("other daemons: {}", names.join(", ")));
    }
    if !started.other_units.is_empty() {
        message.push(format!("their units: {}", started.other_units.join(", ")));
    }
    message
}

fn policy(policy: &Policy) -> String {
    let whole = |ns: u64| time(ns as f64);
    let back = if policy.never_backward { ", never backward" } else { "" };
    let interval = whole(policy.min_interval_ns);
    let rate = format!("{} steps back to back, then one per {interval}{back}", policy.burst);
    let threshold = whole(policy.step_threshold_ns);
    match policy.corrector {
        Corrector::Beside => {
            format!(
                "another daemon disciplines the clock, so this one only steps offsets beyond \
                 {threshold}; limit: {rate}"
            )
        }
        Corrector::Kernel => {
            format!("slews offsets up to {threshold}, steps larger ones; limit: {rate}")
        }
        Corrector::Chronyd { makestep, feed } => {
            let feed = feed
                .then(|| "samples of the selected source go to chronyd's refclock SOCK".to_owned());
            let steps =
                makestep.then(|| format!("chronyd makestep beyond {threshold}; limit: {rate}"));
            feed.into_iter().chain(steps).collect::<Vec<_>>().join("; ")
        }
    }
}

fn leap(by_s: i8, dry_run: bool) -> String {
    let will = if dry_run { "would" } else { "will" };
    let what = match by_s {
        0 => "insert or delete no leap second",
        1.. => "insert 23:59:60 at the end of this UTC day",
        _ => "delete 23:59:59 at the end of this UTC day",
    };
    format!("the kernel {will} {what}")
}

fn tick(us: i64, frequency_ppm: f64) -> String {
    format!(
        "another daemon had set the kernel's tick to {us} us; reset to 10000 us, with a frequency \
         of {frequency_ppm:.3} ppm"
    )
}

/// An oscillator is off by 500 ppm at the most: beyond, what the host advertises is
/// wrong.
fn wrong_rate(ppm: f64) -> Vec<String> {
    let how = if ppm > 0.0 { "slow" } else { "fast" };
    let ppm = ppm.abs();
    vec![
        format!("the counter is {ppm:.0} ppm {how}: the clock is stepped repeatedly"),
        "the host advertises a wrong TSC frequency to this machine: run `parachron doctor`, then \
         have the host fixed, or reboot this machine on that host"
            .into(),
    ]
}

fn correction(corrected: &Corrected) -> Vec<String> {
    let basis = &corrected.basis;
    let would = match (corrected.dry_run, corrected.how) {
        (false, _) => "",
        (true, CorrectionMethod::Makestep) => "would request it, offset ",
        (true, _) => "would correct by ",
    };
    let mut message = vec![format!("{would}{}, {}", amount(basis.by_ns), selected(basis))];
    if let (CorrectionMethod::Step | CorrectionMethod::Makestep, Some(before), Some(after)) =
        (corrected.how, corrected.before_unix_ns, corrected.after_unix_ns)
    {
        message.push(format!("from {}", date_and_time(before)));
        message.push(format!("to {}", date_and_time(after)));
    }
    message
}

fn offset(basis: &Basis) -> String {
    format!("offset {}, {}", amount(basis.by_ns), selected(basis))
}

/// The source, its bound, its votes and the cause: `selected source ntp
/// time.example ± 3.20 ms, 2 of 3 agree; cause: pause`.
fn selected(basis: &Basis) -> String {
    let votes = match (basis.agreeing, basis.of_sources) {
        (agreeing, all) if all > 1 => format!(", {agreeing} of {all} agree"),
        _ => String::new(),
    };
    let cause =
        basis.cause.map_or(String::new(), |cause| format!("; cause: {}", self::cause(cause)));
    let bound = time(basis.bound_ns as f64);
    format!("selected source {} ± {bound}{votes}{cause}", basis.source)
}

fn cause(cause: CorrectionCause) -> String {
    match cause {
        CorrectionCause::Start => "startup".into(),
        CorrectionCause::HostResumed => "the host resumed this machine".into(),
        CorrectionCause::GateWaits => "the gate waits for a right clock".into(),
        CorrectionCause::Disruption(kinds) => kinds.to_string(),
        CorrectionCause::SourceMoved(_) => "the offset from the source changed".into(),
    }
}

pub(crate) fn refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::BeyondMaxStep { max_step_ns } => {
            format!(
                "larger than {} (max-step), and no disruption or second source accounts for it",
                time(max_step_ns as f64)
            )
        }
        Refusal::BeyondLongestAbsence { most_ns } => format!(
            "larger than {:.0} days, which no absence explains: the source shows a wrong date; if \
             the clock does, set it (`date -s`) and restart the daemon",
            most_ns as f64 / 1e9 / DAY_S as f64
        ),
        Refusal::RateLimited { wait_ns } => {
            let wait = time(wait_ns as f64);
            format!("rate limit: next step in {wait} (burst, min-interval)")
        }
        Refusal::Unconfirmed => "awaiting a second sample".into(),
        Refusal::Contradiction => {
            "no majority: the sources contradict each other; remove the wrong one, or add servers (ntp) until a majority agrees".into()
        }
        Refusal::TooFewAgree { needed, configured } => format!(
            "too few sources agree: {needed} of {configured} must, unless a disruption of that size \
             was detected"
        ),
        Refusal::LoneServer { most_ns } => format!(
            "one server alone may correct at most {}; configure a second one (ntp)",
            time(most_ns as f64)
        ),
        Refusal::LoneServerAgain { moved_ns, most_ns, wait_ns } => format!(
            "one server alone has moved the clock by {} beyond 500 ppm of the time since, and may \
             move it by at most {}; configure a second one (ntp), or wait {}",
            time(moved_ns as f64),
            time(most_ns as f64),
            time(wait_ns as f64)
        ),
        Refusal::SetByAnother => {
            "another process set the clock while it was right; that is not undone".into()
        }
        Refusal::TooFarAhead { takes_s } => format!(
            "too far ahead: a slew would take {:.1} days (never-backward)",
            takes_s as f64 / DAY_S as f64
        ),
        Refusal::LeftToChronyd => {
            "left to the daemon that disciplines the clock (with `chrony makestep` chronyd steps \
             it, unless never-backward is set)"
                .into()
        }
    }
}

fn summary(summary: &KeeperSummary) -> Vec<String> {
    let mut message = vec![
        format!(
            "ran {}: {}; {}, {}",
            disruption::span(summary.ran_s),
            quantity(summary.samples, "sample", "samples"),
            quantity(summary.requests, "request", "requests"),
            quantity(summary.replies, "reply", "replies")
        ),
        disruption::counts(&summary.disruptions),
        format!(
            "steps {}, slews {}, refused {}, failed {}",
            summary.steps, summary.slews, summary.refused, summary.failed
        ),
    ];
    if summary.steps > 0 {
        message.push(format!("largest step {}", time(summary.largest_step_ns as f64)));
    }
    if summary.makesteps + summary.fed_chronyd > 0 {
        let fed = quantity(summary.fed_chronyd, "sample", "samples");
        message.push(format!("chronyd: makestep {}, fed {fed}", count(summary.makesteps)));
    }
    message
}

/// `1 step`, `2 steps`.
fn quantity(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

fn name(how: CorrectionMethod) -> &'static str {
    match how {
        CorrectionMethod::Step => "step",
        CorrectionMethod::Slew => "slew",
        CorrectionMethod::Makestep => "makestep",
    }
}

/// A daemon as `ps` shows it.
fn process(daemon: TimeKeeperKind) -> &'static str {
    if daemon == TimeKeeperKind::Chrony { "chronyd" } else { daemon.name() }
}

/// To the ms where [`time`] would leave that out: `+2.000 s`, `-41.2 ms`.
fn amount(ns: i64) -> String {
    signed(ns as f64, |size| match size {
        size if size >= 1e9 => format!("{:.3} s", size / 1e9),
        size => time(size),
    })
}

/// A moment, UTC: `2026-11-21 05:12:03.250`.
pub fn date_and_time(unix_ns: u64) -> String {
    let days = unix_ns / 1_000_000_000 / DAY_S;
    let Date { year, month, day } = calendar::date(days.into());
    format!("{year:04}-{month:02}-{day:02} {}", time_of_day(Some(unix_ns)))
}

#[cfg(test)]
mod tests;
