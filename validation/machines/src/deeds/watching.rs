//! `parachron watch` in a machine while something is done to it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::checks::{self, Check, Checks};
use crate::load::Need;
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;

/// One disruption that was told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The kinds that fit, joined: `pause|migrated`.
    pub(crate) kinds: String,
    /// Size and its bound, s.
    pub(super) size_s: Option<(f64, f64)>,
    /// How far the time of day is behind, and its bound, s.
    pub(super) behind_s: Option<(f64, f64)>,
}

/// What was caused, and what is true of it.
#[derive(Debug)]
pub(super) struct Caused<'a> {
    pub(super) what: &'a str,
    /// What may be told, each one kind or all those that the evidence leaves,
    /// joined; nothing else may, and nothing if there is none.
    pub(super) kinds: &'a [&'a str],
    /// What may be told in addition.
    pub(super) besides: &'a [&'a str],
    /// Its size, and how well that is known from outside, s.
    pub(super) size_s: Option<(f64, f64)>,
}

/// Kinds of which `watch` states no size: a switch has none, and how far a counter
/// was disrupted may be unknown.
const WITHOUT_SIZE: [&str; 2] = ["source-switched", "counter-disrupted"];

/// What is told of a machine that this system does not run, or of one in an
/// emulated host that this system does not run.
const NOT_RUN: [&str; 3] = ["pause", "long-steal", "pause|long-steal"];

/// A pause whose bound is as large as it is was one of this at least, s.
const MARGIN_S: f64 = 0.001;

/// Within what something is to be reported.
const SOON: Duration = Duration::from_secs(1);

/// Starts `watch` in the background, and waits until it watches.
pub(super) fn start(machine: &mut Machine) -> Result {
    machine.execute(
        "parachron watch --format json >/tmp/watch 2>/tmp/watch.err & \
         until grep -q '\"started\"' /tmp/watch; do usleep 50000; done",
    )?;
    Ok(())
}

/// What was told within a second from now on, and what only later.
pub(super) fn told(machine: &mut Machine) -> Result<(Vec<Told>, Vec<Told>), String> {
    let mut read = |line: &str| machine.execute(line).map(|text| parse(&text));
    let soon = read("sleep 1; grep disruption /tmp/watch || true")?;
    let mut all = read("sleep 1.5; grep disruption /tmp/watch || true")?;
    let late = all.split_off(soon.len().min(all.len()));
    Ok((soon, late))
}

/// Ends it.
pub(super) fn end(machine: &mut Machine) -> Result {
    machine.execute("killall -INT parachron; sleep 0.3; rm -f /tmp/watch").map(drop)
}

/// Every disruption that was told, in JSON lines.
pub(crate) fn parse(text: &str) -> Vec<Told> {
    text.lines().filter_map(|line| of_event(&serde_json::from_str(line).ok()?)).collect()
}

fn of_event(event: &Value) -> Option<Told> {
    let size = |key: &str| {
        let size = event.get(key)?;
        Some((size["ns"].as_f64()? / 1e9, size["bound_ns"].as_f64()? / 1e9))
    };
    Some(Told { kinds: checks::kinds(event)?, size_s: size("size"), behind_s: size("behind") })
}

/// Told by a name that fits, of the true size within the bound that it states,
/// in time, and nothing else.
pub(super) fn judge(caused: &Caused<'_>, soon: &[Told], late: &[Told]) -> Check {
    let Caused { what, kinds, besides, size_s } = caused;
    let size = size_s.map_or(String::new(), |(s, _)| format!(" of {s:.2} s"));
    let title = match kinds {
        [] => format!("watch: {what}: nothing"),
        kinds => format!("watch: {what}: {}{size}, within 1 s", kinds.join(" or ")),
    };
    let among = |names: &[&str], told: &Told| names.contains(&told.kinds.as_str());
    let right = |told: &Told| match (size_s, told.size_s) {
        (Some((true_s, known_s)), Some((told_s, bound_s))) => {
            (told_s.abs() - true_s.abs()).abs() <= bound_s + known_s
        }
        (Some(_), None) => WITHOUT_SIZE.contains(&told.kinds.as_str()),
        (None, _) => true,
    };
    let fits = |told: &Told| among(besides, told) || (among(kinds, told) && right(told));
    let named = soon.iter().any(|told| among(kinds, told));
    let passed = named != kinds.is_empty() && soon.iter().chain(late).all(fits);
    let mut found: Vec<String> = soon.iter().map(shown).collect();
    found.extend(late.iter().map(|told| format!("late: {}", shown(told))));
    let found = if found.is_empty() { "nothing".to_owned() } else { found.join("; ") };
    let told: Vec<String> = soon.iter().chain(late).map(|told| told.kinds.clone()).collect();
    let check = Check::new(title, found, passed).told(what, &told);
    // What is named only later was late, and what does not fit may be what this system did.
    let was_late = named != kinds.is_empty() || late.iter().any(|told| among(kinds, told));
    let others = soon.iter().chain(late).filter(|told| !fits(told));
    let misses = others.map(|told| match (told.size_s, size_s) {
        (Some((told_s, bound_s)), Some((true_s, known_s))) if among(kinds, told) => {
            Some((told_s.abs() - true_s.abs()).abs() - bound_s - known_s)
        }
        _ => held_up_s(told),
    });
    match misses.collect::<Option<Vec<f64>>>().filter(|_| was_late).as_deref() {
        Some([]) => check.needing(Need::Deadline(SOON)),
        Some(misses) => check.missed_by_s(misses.iter().copied().fold(MARGIN_S, f64::max)),
        None => check,
    }
}

/// For how long this system must have held the machine up, at least, where what was told is
/// just that; none of what it cannot cause.
pub(crate) fn held_up_s(told: &Told) -> Option<f64> {
    let size = told.size_s.filter(|_| NOT_RUN.contains(&told.kinds.as_str()));
    size.map(|(s, bound_s)| (s - bound_s).max(MARGIN_S))
}

/// How far the time of day is behind was stated, and is so within both bounds;
/// the truth is what this system's clock says, s.
pub(super) fn behind(what: &str, truth_s: (f64, f64), soon: &[Told], late: &[Told]) -> Check {
    let (behind_s, known_s) = truth_s;
    let told = soon.iter().chain(late).find_map(|told| told.behind_s);
    Check::of(
        &format!("watch: {what}: {behind_s:.2} ± {known_s:.2} s behind"),
        told.ok_or_else(|| "not stated".to_owned()),
        |(told_s, bound_s)| {
            let right = (told_s - behind_s).abs() <= bound_s + known_s;
            (format!("{told_s:.3} ± {bound_s:.6} s behind"), right)
        },
    )
    .missed_by_s(
        told.map_or(0.0, |(told_s, bound_s)| (told_s - behind_s).abs() - bound_s - known_s),
    )
}

fn shown(told: &Told) -> String {
    let size = told.size_s.map(|(s, bound_s)| format!(" of {s:.3} ± {bound_s:.3} s"));
    let behind = told.behind_s.map(|(s, bound_s)| format!(", {s:.3} ± {bound_s:.3} s behind"));
    format!("{}{}{}", told.kinds, size.unwrap_or_default(), behind.unwrap_or_default())
}

/// Ten minutes of the machine's time in which nothing happens, but for what this
/// system does to it: a machine that is not run for a second is told as paused.
pub(super) fn calm(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let truth = place.row.truth()?;
    let line = "parachron watch --duration 10m --format json";
    let source = machine.execute("cat $CLOCKSOURCE")?;
    let begun = Instant::now();
    let record = machine.line.run("calm", 1800, line)?;
    let stood_s = place.meter.since(begun).longest_s();
    let minutes = (record.ended_s - record.started_s) / 60.0;
    let complete = record.stdout.contains("\"summary\"") && minutes > 9.8;
    let minutes = complete.then_some(minutes);
    let mut may_tell = truth.may_tell.clone();
    // The kernel gives its TSC up on a busy system.
    if machine.execute("cat $CLOCKSOURCE")? != source {
        may_tell.push("source-switched".to_owned());
    }
    checks.push(judge_calm(&may_tell, minutes, stood_s, &parse(&record.stdout)));
    Ok(())
}

/// Nothing was told but what the row may, or a pause no longer than it was
/// not run; no minutes if it did not watch to the end.
fn judge_calm(may_tell: &[String], minutes: Option<f64>, stood_s: f64, told: &[Told]) -> Check {
    let mut found = minutes.map_or("cut off".to_owned(), |minutes| format!("{minutes:.1} min"));
    largest_by_kind(told).iter().for_each(|(largest, count)| {
        let several = if *count > 1 { format!("{count} times up to ") } else { String::new() };
        found += &format!("; {several}{}", shown(largest));
    });
    if !told.is_empty() {
        found += &format!("; not run for up to {stood_s:.2} s");
    }
    let stood = |told: &Told| {
        told.size_s.is_some_and(|(s, bound_s)| s - bound_s <= stood_s && s > 2.0 * bound_s)
            && NOT_RUN.contains(&told.kinds.as_str())
    };
    let right = |told: &Told| may_tell.contains(&told.kinds) || stood(told);
    let passed = minutes.is_some() && told.iter().all(right);
    let told: Vec<String> = told.iter().map(|told| told.kinds.clone()).collect();
    Check::new("watch: ten calm minutes: nothing", found, passed).told("nothing, for 10 min", &told)
}

/// The largest of each kind, and how many were told: a machine that loses ticks tells
/// hundreds.
fn largest_by_kind(told: &[Told]) -> Vec<(&Told, usize)> {
    let size = |told: &Told| told.size_s.map_or(0.0, |(s, _)| s.abs());
    let mut largest: Vec<(&Told, usize)> = Vec::new();
    for one in told {
        match largest.iter_mut().find(|(known, _)| known.kinds == one.kinds) {
            Some((known, count)) => {
                *count += 1;
                if size(one) > size(known) {
                    *known = one;
                }
            }
            None => largest.push((one, 1)),
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Verdict;
    use crate::load::Load;

    const PAUSE: &str = r#"{"event":"disruption","kinds":["pause"],
        "size":{"ns":5.4e9,"bound_ns":1e9},"behind":null}"#;

    fn verdict(text: &str, late: &str, kinds: &[&str], size_s: f64) -> bool {
        let told = |text: &str| of_event(&serde_json::from_str(text).ok()?);
        let told = |text: &str| told(text).into_iter().collect::<Vec<_>>();
        let caused =
            Caused { what: "stop", kinds, besides: &["steered"], size_s: Some((size_s, 0.1)) };
        judge(&caused, &told(text), &told(late)).passed
    }

    #[test]
    fn the_right_name_and_size_in_time_pass() {
        assert!(verdict(PAUSE, "", &["pause"], 5.0));
        assert!(verdict(PAUSE, "", &["migrated", "pause"], 6.4));
        assert!(!verdict(PAUSE, "", &["pause"], 6.6), "outside its own bound");
        assert!(!verdict(PAUSE, "", &["migrated"], 5.0), "another name");
        assert!(!verdict("", PAUSE, &["pause"], 5.0), "late");
        assert!(!verdict(PAUSE, &PAUSE.replace("pause", "clock-set"), &["pause"], 5.0), "and more");
        assert!(verdict(PAUSE, &PAUSE.replace("pause", "steered"), &["pause"], 5.0), "besides");
        assert!(!verdict(&PAUSE.replace("pause", "steered"), "", &["pause"], 5.0), "not named");
        assert!(!verdict("", "", &["pause"], 5.0));
        let unsized_one = PAUSE.replace(r#"{"ns":5.4e9,"bound_ns":1e9}"#, "null");
        assert!(!verdict(&unsized_one, "", &["pause"], 5.0), "its size is not told");
        let switched = unsized_one.replace("pause", "source-switched");
        assert!(verdict(&switched, "", &["source-switched"], 5.0), "it has none");
        assert!(verdict("", "", &[], 5.0), "nothing is right where nothing fits");
        assert!(!verdict("", PAUSE, &[], 5.0));
        let several = PAUSE.replace("[\"pause\"]", "[\"pause\",\"migrated\"]");
        assert!(!verdict(&several, "", &["pause", "migrated"], 5.0), "vaguer than it may be");
        assert!(verdict(&several, "", &["pause|migrated"], 5.0));
    }

    #[test]
    fn a_busy_system_explains_what_is_late_or_a_pause_and_nothing_else() {
        let verdict = |soon: &str, late: &str, kinds: &[&str], waited_s: f64| {
            let caused = Caused { what: "stop", kinds, besides: &[], size_s: None };
            let mut check = judge(&caused, &parse(soon), &parse(late));
            let waited = Duration::from_secs_f64(waited_s);
            check.settle(&Load::busy(waited * 10, waited, waited));
            check.verdict()
        };
        let pause = PAUSE.replace('\n', "");
        let set = pause.replace("pause", "clock-set");
        assert_eq!(verdict("", &set, &["clock-set"], 0.3), Verdict::NotMeasured, "late");
        assert_eq!(verdict("", &set, &["clock-set"], 0.2), Verdict::Failed, "and not busy");
        assert_eq!(verdict("", "", &["clock-set"], 9.0), Verdict::Failed, "never told");
        assert_eq!(verdict(&set, "", &["suspend"], 9.0), Verdict::Failed, "another name");
        // A pause of 5.4 ± 1 s beside what was caused, or where nothing was.
        let both = format!("{set}\n{pause}");
        assert_eq!(verdict(&both, "", &["clock-set"], 4.5), Verdict::NotMeasured);
        assert_eq!(verdict(&both, "", &["clock-set"], 4.3), Verdict::Failed, "of another size");
        assert_eq!(verdict(&pause, "", &[], 4.5), Verdict::NotMeasured);
        assert_eq!(verdict(&set, "", &[], 9.0), Verdict::Failed, "no load sets a clock");
    }

    #[test]
    fn a_calm_run_is_complete_and_tells_of_nothing_but_what_this_system_did() {
        let one = parse(&PAUSE.replace('\n', ""));
        assert!(judge_calm(&[], Some(10.0), 0.01, &[]).passed);
        assert!(!judge_calm(&[], None, 0.01, &[]).passed);
        let wrong = judge_calm(&[], Some(10.0), 4.0, &one);
        let found = "10.0 min; pause of 5.400 ± 1.000 s; not run for up to 4.00 s";
        assert_eq!((wrong.passed, &*wrong.found), (false, found));
        assert!(judge_calm(&[], Some(10.0), 5.0, &one).passed, "so it was");
        assert!(judge_calm(&["pause".to_owned()], Some(10.0), 0.0, &one).passed);
        let more = PAUSE.replace('\n', "").replace("5.4e9", "-6e9");
        let two = judge_calm(&[], Some(10.0), 4.0, &[one, parse(&more)].concat());
        let found = "10.0 min; 2 times up to pause of -6.000 ± 1.000 s; not run for up to 4.00 s";
        assert_eq!(two.found, found);
    }
}
