//! The first line of a report: is the time right now, what will make it wrong, what to do first.

use facts::steering::{Adjtimex, ChronyTracking};
use instruments::figures;
use instruments::measurements::ComparedReference;

use crate::case::Case;
use crate::finding::{
    CheckState, Checked, Finding,
    Harm::{MayGoWrong, Other, WrongNow},
    Severity, TimeNow, TimeState,
};
use crate::text;

/// A clock that is further off is wrong, s: Kerberos and databases bear less than a second.
const RIGHT_WITHIN_S: f64 = 0.1;

/// By references, by a finding, by chronyd, in this order.
pub(crate) fn time_now(case: &Case<'_>, findings: &[Finding]) -> TimeNow {
    let compared = by_references(case);
    if let Ok(time) = &compared
        && time.state != TimeState::NotKnown
    {
        return time.clone();
    }
    if let Some(finding) = findings.iter().find(|finding| finding.harm == WrongNow) {
        return TimeNow { by: finding.what.clone(), ..TimeNow::unknown(TimeState::Wrong) };
    }
    let why_not = match compared {
        Ok(not_known) => return not_known,
        Err(why_not) => why_not,
    };
    let is_card = |tracking: &&ChronyTracking| {
        tracking.reference.starts_with("PHC") && case.free_card().is_some()
    };
    let followed = case.followed().filter(|_| case.behind_rtc().is_none());
    if let Some(card) = followed.filter(is_card) {
        let by = format!("chronyd follows {}, a network card's clock", card.reference);
        return TimeNow { by, ..TimeNow::unknown(TimeState::NotKnown) };
    }
    let Some(tracking) = followed else {
        return TimeNow { by: why_not, ..TimeNow::unknown(TimeState::NotKnown) };
    };
    // chrony FAQ, "How can I check the accuracy": what is left to correct, and the root distance.
    let bound_s = tracking.root_dispersion_s + tracking.root_delay_s / 2.0;
    let source = match tracking.reference.as_str() {
        "withheld" => "a server",
        name => name,
    };
    judge(tracking.system_offset_s, bound_s, format!("chronyd (following {source})"))
}

impl TimeNow {
    fn unknown(state: TimeState) -> Self {
        Self { state, offset_s: None, bound_s: None, by: String::new() }
    }

    /// `The time is right to 1.2 ms by ntp time.example.`
    fn sentence(&self) -> String {
        let Self { state, offset_s, bound_s, by } = self;
        let bound_s = bound_s.unwrap_or_default();
        match (state, offset_s) {
            (TimeState::Right, offset_s) => {
                let within = figures::seconds(offset_s.unwrap_or_default().abs() + bound_s);
                format!("The time is right to {within}, by {by}.")
            }
            (TimeState::Wrong, Some(offset_s)) => {
                format!("The time is wrong: {}, by {by}.", off(*offset_s, bound_s))
            }
            (TimeState::Wrong, None) => format!("The time is wrong or in doubt: {by}."),
            (TimeState::NotKnown, _) => {
                format!("It is not known whether the time is right, because {by}.")
            }
        }
    }
}

/// `3.00 s ahead (± 10.0 ms)`
fn off(offset_s: f64, bound_s: f64) -> String {
    let direction = if offset_s > 0.0 { "behind" } else { "ahead" };
    format!("{} {direction} (± {})", figures::seconds(offset_s.abs()), figures::seconds(bound_s))
}

fn judge(offset_s: f64, bound_s: f64, by: String) -> TimeNow {
    let (state, by) = if offset_s.abs() + bound_s < RIGHT_WITHIN_S {
        (TimeState::Right, by)
    } else if offset_s.abs() - bound_s >= RIGHT_WITHIN_S {
        (TimeState::Wrong, by)
    } else {
        let shown = off(offset_s, bound_s);
        (TimeState::NotKnown, format!("{by} shows it {shown}: the bound is too wide to tell"))
    };
    TimeNow { state, offset_s: Some(offset_s), bound_s: Some(bound_s), by }
}

/// The references together; where none answers whether the time is right, why.
pub(crate) fn by_references(case: &Case<'_>) -> Result<TimeNow, String> {
    let references = case.references();
    let given = || references.iter().filter_map(|one| Some((one, one.offset_s?)));
    let names: Vec<_> = given().map(|(one, _)| one.name.as_str()).collect();
    if names.is_empty() {
        return Err(not_compared(case, &references));
    }
    let low_s = given().map(|(one, s)| s - one.bound_s).fold(f64::NEG_INFINITY, f64::max);
    let high_s = given().map(|(one, s)| s + one.bound_s).fold(f64::INFINITY, f64::min);
    if low_s > high_s {
        let shown: Vec<_> = given().map(|(one, _)| reference_evidence(one)).collect();
        let by = format!("references contradict each other: {}", text::list(&shown));
        return Ok(TimeNow { by, ..TimeNow::unknown(TimeState::NotKnown) });
    }
    let (offset_s, bound_s) = ((low_s + high_s) / 2.0, (high_s - low_s) / 2.0);
    let time = judge(offset_s, bound_s, text::list(&names));
    // A PTP device of a hypervisor shows its host's time without the host's error.
    let is_host_alone = names.iter().all(|name| name.starts_with("phc "));
    if is_host_alone && time.state == TimeState::Right {
        let within = figures::seconds(offset_s.abs() + bound_s);
        return Err(format!(
            "{} shows only that it agrees with its host's clock within {within}: add --ntp HOST",
            time.by
        ));
    }
    Ok(time)
}

/// `ntp time.example: 3.00 s ahead (± 10.0 ms)`, of this clock.
pub(crate) fn reference_evidence(one: &ComparedReference) -> String {
    let shown = one.offset_s.map(|offset_s| off(offset_s, one.bound_s));
    let why_not = one.why_not.clone().unwrap_or_default();
    format!("{}: {}", one.name, shown.unwrap_or(why_not))
}

fn not_compared(case: &Case<'_>, references: &[&ComparedReference]) -> String {
    let failed = references.iter().find_map(|one| Some((&one.name, one.why_not.as_deref()?)));
    let no_time = |(name, why)| format!("{name} gave no time ({why})");
    if let Some(server) = failed.filter(|(name, _)| name.starts_with("ntp ")) {
        return format!("{}: name another --ntp HOST", no_time(server));
    }
    if case.in_container() {
        return "a container has its host's clock: run parachron doctor on the host".to_owned();
    }
    let mut why = vec![known_of_keeper(case)];
    why.extend(case.rtc_differs().into_iter().chain(failed.map(no_time)));
    let elsewhere = "run parachron doctor --ntp HOST on the machine";
    let advice = if case.is_measured() { "add --ntp HOST" } else { elsewhere };
    format!("{}: {advice}", why.join("; "))
}

/// What the kernel and the daemons show of a clock that nothing was compared with.
fn known_of_keeper(case: &Case<'_>) -> String {
    let state = case.adjtimex_given().ok();
    let bound = state.filter(|state| state.gives("maxerror")).map_or_else(String::new, |state| {
        format!(" (± {})", figures::time(state.max_error_us as f64 * 1e3))
    });
    let flag = state.filter(|state| state.gives("status"));
    let keepers = case.keepers();
    let running =
        keepers.iter().flat_map(|all| all.iter()).find(|one| one.running && one.kind.disciplines());
    let running = running.map(|keeper| keeper.kind.program());
    match (flag.map(|state| state.has(Adjtimex::STA_UNSYNC)), running) {
        _ if case.tracking().is_ok_and(|tracking| tracking.is_own_clock()) => {
            "chronyd follows this machine's own clock".to_owned()
        }
        (Some(false), _) => format!("only the kernel's flag shows that a daemon set it{bound}"),
        (Some(true), Some(program)) => {
            format!("the kernel counts it as not synchronised, although {program} runs")
        }
        (Some(true), None) if keepers.is_ok() => {
            "no program sets it, and the kernel counts it as not synchronised".to_owned()
        }
        (Some(true), None) => "the kernel counts it as not synchronised".to_owned(),
        (None, _) if !bound.is_empty() => format!("only the kernel's error bound is known{bound}"),
        (None, Some(program)) => format!("{program} runs, and its state is not known"),
        (None, None) if keepers.is_ok() => "no program is known to set it".to_owned(),
        (None, None) => "it was not compared with any reference".to_owned(),
    }
}

/// The diagnosis in one line.
pub(crate) fn headline(
    time: &TimeNow,
    findings: &[Finding],
    checked: &[Checked],
    rules: usize,
) -> String {
    let count = |state| checked.iter().filter(|entry| entry.state == state).count();
    let unknown = count(CheckState::NotChecked);
    let checks = rules - unknown - count(CheckState::DoesNotApply);
    let is_grave = |finding: &&Finding| finding.severity > Severity::Note;
    let worst = |harm| findings.iter().filter(is_grave).find(|finding| finding.harm == harm);
    let possible = match unknown {
        0 => String::new(),
        n => format!("; {}", text::count(n, "was not possible", "were not possible")),
    };
    let made = text::count(checks, "check", "checks");
    let no_risk = format!("No risk to it found in {made}{possible}.");
    let risk = match (worst(MayGoWrong), worst(Other)) {
        (Some(risk), _) => format!("At risk: {}.", risk.what),
        (None, Some(cost)) => format!("{no_risk} Besides: {}.", cost.what),
        (None, None) if checks == 0 && unknown == 0 => "No rule applies.".to_owned(),
        (None, None) if checks == 0 => "Nothing could be checked.".to_owned(),
        (None, None) => no_risk,
    };
    let wrong = findings.iter().find(|finding| finding.harm == WrongNow);
    let first = wrong.or_else(|| worst(MayGoWrong)).or_else(|| worst(Other));
    let first =
        first.and_then(|finding| finding.remedies.first()).map_or_else(String::new, |remedy| {
            format!(" First: {}.", remedy.what.trim_end_matches(['.', ':']))
        });
    format!("{} {risk}{first}", time.sentence())
}

#[cfg(test)]
mod tests {
    use facts::Fact;
    use facts::steering::TimeKeeperKind;

    use super::*;
    use crate::testing::{healthy_kvm_guest, keeper, measured_tsc, undisciplined};

    fn verdict(offsets: &[(&str, Option<f64>, f64)]) -> String {
        let mut facts = healthy_kvm_guest();
        undisciplined(&mut facts);
        verdict_of(&facts, offsets)
    }

    fn verdict_of(facts: &facts::Facts, offsets: &[(&str, Option<f64>, f64)]) -> String {
        let mut measured = measured_tsc();
        measured.references = offsets
            .iter()
            .map(|(name, offset_s, bound_s)| ComparedReference {
                name: (*name).to_owned(),
                offset_s: *offset_s,
                bound_s: *bound_s,
                why_not: offset_s.is_none().then(|| "no reply in 2 s".to_owned()),
            })
            .collect();
        crate::diagnose(facts, Some(&measured)).verdict
    }

    #[test]
    fn an_agent_that_runs_is_no_daemon_that_fails_and_a_capture_is_compared_elsewhere() {
        let mut facts = healthy_kvm_guest();
        undisciplined(&mut facts);
        facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::QemuGuestAgent, true)]);
        let text = crate::diagnose(&facts, None).verdict;
        assert!(!text.contains("qemu-ga runs"), "{text}");
        assert!(text.contains(": run parachron doctor --ntp HOST on the machine"), "{text}");
    }

    /// chronyd's servers know what the host's clock alone does not show.
    #[test]
    fn beside_the_host_s_clock_chronyd_is_asked() {
        let text = verdict_of(&healthy_kvm_guest(), &[("phc /dev/ptp0", Some(1e-6), 1e-6)]);
        assert!(text.starts_with("The time is right to 5.01 ms, by chronyd"), "{text}");
    }

    #[test]
    fn a_reference_answers_whether_the_time_is_right() {
        let all = [
            ("right", &[("ntp a", Some(0.001), 0.004)][..]),
            ("ahead", &[("ntp a", Some(-3.0), 0.01), ("phc /dev/ptp0", Some(-3.0), 1e-6)]),
            ("wide", &[("ntp a", Some(3.0), 10.2)]),
            ("contradict", &[("ntp a", Some(3.0), 0.01), ("ntp b", Some(0.0), 0.01)]),
            ("no reply", &[("ntp a", None, 0.0)]),
            ("host silent", &[("phc /dev/ptp0", None, 0.0)]),
            ("host alone", &[("phc /dev/ptp0", Some(1e-6), 1e-6)]),
            ("host off", &[("phc /dev/ptp0", Some(300.0), 1e-6)]),
            ("none", &[]),
        ];
        let lines = all.map(|(case, offsets)| format!("{case}: {}", verdict(offsets)));
        insta::assert_snapshot!(lines.join("\n"));
    }
}
