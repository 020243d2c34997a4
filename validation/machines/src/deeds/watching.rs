//! `parachron watch` in a machine while something is done to it.

use serde_json::Value;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;

/// One disruption that was told.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// The kinds that fit, joined: `pause|migrated`.
    pub(super) kinds: String,
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

/// What `watch` told while something happened, and what the clocks did meanwhile.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Within a second after it, and only later.
    pub(super) soon: Vec<Told>,
    pub(super) late: Vec<Told>,
    /// By how much the time of day and CLOCK_MONOTONIC fell behind this system's, and how well
    /// that is known, s.
    pub(super) lost: (f64, f64),
    pub(super) stood: (f64, f64),
}

/// Lets something happen while `watch` runs.
pub(super) fn during<T>(
    machine: &mut Machine,
    happens: impl FnOnce(&mut Machine) -> Result<T>,
) -> Result<(T, Seen)> {
    machine.execute(
        "parachron watch --format json >/tmp/watch 2>/tmp/watch.err & \
         until grep -q '\"started\"' /tmp/watch; do usleep 50000; done",
    )?;
    let (before_s, before_known_s) = machine.clocks_ahead_s()?;
    let done = happens(machine)?;
    let mut read = |line: &str| machine.execute(line).map(|text| parse(&text));
    let soon = read("sleep 1; grep disruption /tmp/watch || true")?;
    let mut all = read("sleep 1.5; grep disruption /tmp/watch || true")?;
    let late = all.split_off(soon.len().min(all.len()));
    let (after_s, after_known_s) = machine.clocks_ahead_s()?;
    machine.execute("killall -INT parachron; sleep 0.3; rm -f /tmp/watch")?;
    let known_s = before_known_s + after_known_s;
    let [lost, stood] = [0, 1].map(|clock| (before_s[clock] - after_s[clock], known_s));
    Ok((done, Seen { soon, late, lost, stood }))
}

impl Seen {
    pub(super) fn all(&self) -> impl Iterator<Item = &Told> {
        self.soon.iter().chain(&self.late)
    }
}

/// Every disruption that was told, in JSON lines.
pub(super) fn parse(text: &str) -> Vec<Told> {
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
pub(super) fn judge(caused: &Caused<'_>, seen: &Seen) -> Check {
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
    let named = seen.soon.iter().any(|told| among(kinds, told));
    let passed = named != kinds.is_empty() && seen.all().all(fits);
    let mut found: Vec<String> = seen.soon.iter().map(shown).collect();
    found.extend(seen.late.iter().map(|told| format!("late: {}", shown(told))));
    let found = if found.is_empty() { "nothing".to_owned() } else { found.join("; ") };
    Check::new(title, found, passed)
}

/// How far the time of day is behind was stated, and is so within both bounds; the truth is what
/// this system's clock says, and is known to so much less, s.
pub(super) fn behind(what: &str, seen: &Seen, less_s: f64) -> Check {
    let (behind_s, known_s) = (seen.lost.0, seen.lost.1 + less_s);
    let told = seen.all().find_map(|told| told.behind_s);
    Check::of(
        &format!("watch: {what}: {behind_s:.2} ± {known_s:.2} s behind"),
        told.ok_or_else(|| "not stated".to_owned()),
        |(told_s, bound_s)| {
            let right = (told_s - behind_s).abs() <= bound_s + known_s;
            (format!("{told_s:.3} ± {bound_s:.6} s behind"), right)
        },
    )
}

fn shown(told: &Told) -> String {
    let size = told.size_s.map(|(s, bound_s)| format!(" of {s:.3} ± {bound_s:.3} s"));
    let behind = told.behind_s.map(|(s, bound_s)| format!(", {s:.3} ± {bound_s:.3} s behind"));
    format!("{}{}{}", told.kinds, size.unwrap_or_default(), behind.unwrap_or_default())
}

/// Ten minutes of the machine's time in which nothing happens.
pub(super) fn calm(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let line = "parachron watch --duration 10m --format json";
    let record = machine.line.run("calm", 1800, line)?;
    let minutes = (record.ended_s - record.started_s) / 60.0;
    let mut check = judge_calm(&place.row.truth()?.may_tell, &record.stdout);
    check.what += &format!(", in ten minutes of its time, which took {minutes:.1}");
    check.passed &= minutes > 9.8;
    checks.push(check);
    Ok(())
}

/// `watch` ran to its end, and told of nothing but what the row may.
pub(crate) fn judge_calm(may_tell: &[String], text: &str) -> Check {
    let may = may_tell.join(", ");
    let what = format!("watch: nothing happens{}{may}", if may.is_empty() { "" } else { ", or " });
    let told = parse(text);
    if !text.contains("\"summary\"") {
        return Check::new(what, "no summary", false);
    }
    let found: Vec<String> = told.iter().take(5).map(shown).collect();
    let found = format!("{} told: {}", told.len(), found.join("; "));
    Check::new(what, found, told.iter().all(|told| may_tell.contains(&told.kinds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: &str = r#"{"event":"disruption","kinds":["pause"],
        "size":{"ns":5.4e9,"bound_ns":1e9},"behind":null}"#;

    fn verdict(text: &str, late: &str, kinds: &[&str], size_s: f64) -> bool {
        let told = |text: &str| of_event(&serde_json::from_str(text).ok()?);
        let told = |text: &str| told(text).into_iter().collect::<Vec<_>>();
        let caused =
            Caused { what: "stop", kinds, besides: &["steered"], size_s: Some((size_s, 0.1)) };
        judge(&caused, &Seen { soon: told(text), late: told(late), ..Seen::default() }).passed
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
    fn a_calm_run_is_complete_and_tells_of_nothing() {
        let (one, end) = (PAUSE.replace('\n', ""), "{\"event\":\"summary\"}");
        assert!(judge_calm(&[], end).passed && !judge_calm(&[], "").passed);
        let wrong = judge_calm(&[], &format!("{one}\n{end}"));
        assert_eq!((wrong.passed, &*wrong.found), (false, "1 told: pause of 5.400 ± 1.000 s"));
        assert!(judge_calm(&["pause".to_owned()], &format!("{one}\n{end}")).passed);
    }
}
