//! Whether chronyd keeps the frequency that it learnt. What it had not learnt it cannot lose: that
//! is not judged, and told as skipped.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::checks::Check;
use crate::deeds::Done;
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};

use super::chronyd::{CALM, FREQUENCY, HURRY, thinks};

/// Learnt: it states less, ppm.
const LEARNT_PPM: f64 = 10.0;

/// Learnt again it is within this of what it was, ppm.
const KEPT_PPM: f64 = 20.0;

/// And at once after what happened within this, ppm: answers through an emulated card,
/// 20 ms late one way, move the kernel's PLL by 60, a pause taken for a frequency
/// by 500 (MAXFREQ, include/linux/timex.h).
const AT_ONCE_PPM: f64 = 100.0;

/// So long it may learn, and how far apart it is looked at.
const LEARNS: Duration = Duration::from_secs(120);
const APART: Duration = Duration::from_secs(2);

/// Measurements since that make an estimate a new one: by one it can still be the old one,
/// with a new date.
const MEASUREMENTS: usize = 4;

/// What a daemon has of its frequency.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Estimate {
    ppm: f64,
    /// How well it says that it knows it, ppm.
    unsure_ppm: Option<f64>,
    /// When it was last measured, where it tells.
    measured: String,
    /// What its last measurements have it otherwise by, where it tells, ppm.
    residual_ppm: Option<f64>,
}

impl Estimate {
    /// Of a line: the frequency, ppm; how well it is known, ppm, or none; when it was
    /// measured; and what is residual, ppm. chronyd states 0 while it is not synchronised.
    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let ppm = words.next().and_then(|word| word.parse().ok());
        let ppm = ppm.ok_or_else(|| format!("a frequency of {line:?}"))?;
        let unsure_ppm = words.next().and_then(|word| word.parse().ok());
        let unsure_ppm = unsure_ppm.filter(|unsure_ppm| *unsure_ppm > 0.0);
        let measured = words.next().unwrap_or_default().to_owned();
        let residual_ppm = words.next().and_then(|word| word.parse().ok());
        Ok(Self { ppm, unsure_ppm, measured, residual_ppm })
    }

    /// It is known well, and what is measured does not contradict it.
    fn is_learnt(&self) -> bool {
        let is_residual =
            |unsure_ppm: f64| self.residual_ppm.is_some_and(|ppm| ppm.abs() > unsure_ppm);
        self.unsure_ppm
            .is_some_and(|unsure_ppm| unsure_ppm < LEARNT_PPM && !is_residual(unsure_ppm))
    }

    fn shown(&self) -> String {
        let unsure = self.unsure_ppm.map(|unsure_ppm| format!("{unsure_ppm:.3}"));
        let residual = self.residual_ppm.map(|ppm| format!(", {ppm:.3} ppm residual"));
        format!(
            "{:.3} ± {} ppm{}",
            self.ppm,
            unsure.unwrap_or_else(|| "not stated".to_owned()),
            residual.unwrap_or_default()
        )
    }
}

/// As it has it now.
fn at_once(machine: &mut Machine) -> Result<Estimate, String> {
    Estimate::parse(&machine.execute(FREQUENCY)?)
}

/// Once it is learnt; or as it is in the end, where it is not.
pub(super) fn learnt(machine: &mut Machine) -> Result<Estimate, String> {
    Ok(learnt_since(machine, "")?.0)
}

/// The same, by measurements since the one of that time; and how many those were.
fn learnt_since(machine: &mut Machine, before: &str) -> Result<(Estimate, usize), String> {
    machine.execute(HURRY)?;
    let (begun, mut looks) = (Instant::now(), Vec::new());
    let found = loop {
        let stated = at_once(machine)?;
        looks.push(stated.clone());
        let since = measurements(&looks, before);
        let is_new = before.is_empty() || since >= MEASUREMENTS;
        if is_new && stated.is_learnt() {
            break (stated, since);
        }
        if begun.elapsed() > LEARNS {
            // What is of before is of no measurement.
            let unsure_ppm = stated.unsure_ppm.filter(|_| is_new);
            break (Estimate { unsure_ppm, ..stated }, since);
        }
        sleep(APART);
    };
    machine.execute(CALM)?;
    Ok(found)
}

/// How many measurements looks show that are not the one of before.
fn measurements(looks: &[Estimate], before: &str) -> usize {
    let all: BTreeSet<&str> = looks.iter().map(|one| one.measured.as_str()).collect();
    all.into_iter().filter(|measured| *measured != before).count()
}

/// The frequency is what it was, whatever happened meanwhile.
pub(super) fn kept(machine: &mut Machine, before: &Estimate, done: &mut Done) -> Result {
    let first = at_once(machine)?;
    let (again, since) = learnt_since(machine, &first.measured)?;
    match judged(before, &first, &again) {
        Ok(mut check) => {
            let thinks = thinks(machine)?;
            check.found += &format!(" by {since} measurements; it thinks {thinks}");
            done.checks.push(check);
        }
        Err(skipped) => done.skipped.push(skipped),
    }
    Ok(())
}

fn judged(before: &Estimate, first: &Estimate, again: &Estimate) -> Result<Check, Unavailable> {
    let found =
        format!("{}, then {:.3} ppm, learnt again {}", before.shown(), first.ppm, again.shown());
    if !before.is_learnt() || !again.is_learnt() {
        let why = format!("whether chronyd keeps its frequency: not judged, not learnt: {found}");
        return Err(Unavailable::new(why, "run the row on a faster system"));
    }
    let off_ppm = |one: &Estimate| (one.ppm - before.ppm).abs();
    Ok(Check::new(
        format!(
            "service: chronyd keeps its frequency, to {AT_ONCE_PPM} ppm at once, to {KEPT_PPM} ppm \
             once it is learnt again"
        ),
        found,
        off_ppm(first) < AT_ONCE_PPM && off_ppm(again) < KEPT_PPM,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ppm: f64, unsure_ppm: Option<f64>) -> Estimate {
        Estimate { ppm, unsure_ppm, measured: String::new(), residual_ppm: None }
    }

    #[test]
    fn what_daemons_print_is_an_estimate() {
        let of = |line| Estimate::parse(line).unwrap();
        let measured = "1795420848.167462766".to_owned();
        let known = Estimate { measured, ..estimate(-28.663, Some(8.294)) };
        assert_eq!(of("-28.663 8.294 1795420848.167462766"), known);
        let expected = Estimate { residual_ppm: Some(-0.2), ..known };
        assert_eq!(of("-28.663 8.294 1795420848.167462766 -0.200"), expected);
        // Not synchronised, and one that states nothing.
        assert_eq!(of("-0.431 0.000 0.000000000").unsure_ppm, None);
        assert_eq!(of("8.36317"), estimate(8.36317, None));
        assert_eq!(of("0 10000000").unsure_ppm, Some(1e7));
        assert!(Estimate::parse("").is_err());
        assert!(Estimate::parse("Cannot talk").is_err());
    }

    #[test]
    fn only_what_was_learnt_is_judged() {
        let known = estimate(5.0, Some(3.0));
        let of = |before: &Estimate, again: &Estimate| judged(before, again, again);
        for unknown in [estimate(5.0, None), estimate(5.0, Some(99.6)), estimate(5.0, Some(1e7))] {
            assert!(of(&unknown, &known).is_err() && of(&known, &unknown).is_err(), "{unknown:?}");
        }
        assert!(of(&known, &estimate(24.0, Some(3.0))).unwrap().passed);
        assert!(!of(&known, &estimate(26.0, Some(3.0))).unwrap().passed);
        // A pause that it took for a frequency, and found out.
        let lost = judged(&known, &estimate(-495.0, None), &known).unwrap();
        assert!(!lost.passed, "{}", lost.found);
    }

    /// Of row debian-parachrond-moved, which passed.
    #[test]
    fn what_is_measured_otherwise_is_not_learnt() {
        let put_back = Estimate { residual_ppm: Some(51_439.0), ..estimate(-4.134, Some(8.829)) };
        assert!(!put_back.is_learnt());
        assert!(Estimate { residual_ppm: Some(-3.0), ..put_back }.is_learnt());
    }

    #[test]
    fn a_new_date_alone_is_no_new_estimate() {
        let at = |measured: &str| Estimate { measured: measured.into(), ..estimate(1.0, None) };
        let looks = ["1", "1", "2", "2"].map(at);
        assert_eq!(measurements(&looks, "1"), 1);
        assert_eq!(measurements(&["1", "2", "3", "4", "5"].map(at), "1"), MEASUREMENTS);
    }
}
