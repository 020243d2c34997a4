//! Forces each cause of lateness that this machine lets itself be forced to, counts how often
//! `inspect::latency` names it, and how often where it was not forced:
//!
//! ```sh
//! cargo run -p e2e --bin latency-causes -- [--tries N] [--only CAUSE]
//! ```
//!
//! A cause is named right where it explains at least half of the time that was forced, or
//! where the comparison that proves it holds. What else the machine does meanwhile (other
//! threads, its host) may be named beside it. A run in which the cause could not be forced, or
//! kept out, does not count and is made again, up to twice as many in all.
//!
//! The result is JSON on standard output. Exit code 1: a cause was named in less than 95 % of
//! the runs that forced it, or in more than 2 % of those that did not; 2: a usage error. Where
//! no run counts the cause is `not-measured`, with the reason.

mod cases;
mod children;
mod machine;
mod plan;

use std::process::ExitCode;

use serde_json::{Value, json};

use cases::{CASES, Case, Outcome};

/// So many are to be named right, and at most so many where nothing was forced, %.
const RIGHT_PERCENT: usize = 95;
const CONTROL_PERCENT: usize = 2;
const USAGE: &str = "usage: latency-causes [--tries N] [--only CAUSE]";
const USAGE_ERROR: u8 = 2;

struct Options {
    tries: usize,
    only: Option<String>,
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { tries: 20, only: None };
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--tries" => {
                options.tries = value.parse().ok().filter(|tries| *tries > 0)?;
            }
            [name, value] if name == "--only" => {
                CASES.iter().find(|case| case.name == value)?;
                options.only = Some(value.clone());
            }
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if children::run(&arguments) {
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    };
    let chosen = |case: &&Case| options.only.as_ref().is_none_or(|only| only == case.name);
    let results: Vec<Tally> =
        CASES.iter().filter(chosen).map(|case| Tally::take(case, options.tries)).collect();
    let causes: Vec<Value> = results.iter().map(Tally::to_json).collect();
    let is_wrong = results.iter().any(|tally| tally.verdict() == Verdict::Wrong);
    println!("{:#}", json!({ "tries": options.tries, "causes": causes }));
    if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    NotMeasured,
}

/// Runs that count, those of them in which the cause was named, and why others did not count.
#[derive(Debug, Default)]
struct Runs {
    counted: usize,
    named: usize,
    why_not: Vec<String>,
}

impl Runs {
    fn take(run: fn() -> Outcome, tries: usize) -> Self {
        let mut runs = Self::default();
        for _ in 0..2 * tries {
            match run() {
                Ok(is_named) => {
                    runs.counted += 1;
                    runs.named += usize::from(is_named);
                }
                Err(why) => runs.why_not.push(why),
            }
            if runs.counted == tries {
                break;
            }
        }
        runs
    }

    fn to_json(&self) -> Value {
        let why_not = self.why_not.last();
        json!({
            "runs": self.counted,
            "named": self.named,
            "did_not_count": self.why_not.len(),
            "why": why_not,
        })
    }
}

#[derive(Debug)]
struct Tally {
    name: &'static str,
    forced: Runs,
    control: Runs,
}

impl Tally {
    fn take(case: &Case, tries: usize) -> Self {
        eprintln!("{}", case.name);
        let forced = Runs::take(case.forced, tries);
        // What cannot be forced needs no control.
        let control =
            if forced.counted > 0 { Runs::take(case.control, tries) } else { Runs::default() };
        Self { name: case.name, forced, control }
    }

    fn verdict(&self) -> Verdict {
        let Self { forced, control, .. } = self;
        let is_named = forced.named * 100 >= RIGHT_PERCENT * forced.counted;
        let is_quiet = control.named * 100 <= CONTROL_PERCENT * control.counted;
        if !is_named || !is_quiet {
            Verdict::Wrong
        } else if forced.counted == 0 || control.counted == 0 {
            Verdict::NotMeasured
        } else {
            Verdict::Right
        }
    }

    fn to_json(&self) -> Value {
        let verdict = match self.verdict() {
            Verdict::Right => "right",
            Verdict::Wrong => "wrong",
            Verdict::NotMeasured => "not-measured",
        };
        json!({
            "cause": self.name,
            "verdict": verdict,
            "forced": self.forced.to_json(),
            "control": self.control.to_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(forced: [usize; 2], control: [usize; 2]) -> Verdict {
        let runs = |[counted, named]: [usize; 2]| Runs { counted, named, why_not: Vec::new() };
        Tally { name: "", forced: runs(forced), control: runs(control) }.verdict()
    }

    #[test]
    fn a_cause_is_named_where_it_is_forced_and_nowhere_else() {
        assert_eq!(verdict([200, 190], [200, 4]), Verdict::Right);
        assert_eq!(verdict([200, 189], [200, 0]), Verdict::Wrong, "below 95 %");
        assert_eq!(verdict([200, 200], [200, 5]), Verdict::Wrong, "above 2 %");
        assert_eq!(verdict([0, 0], [0, 0]), Verdict::NotMeasured, "0 of 0 is no result");
        assert_eq!(verdict([200, 200], [0, 0]), Verdict::NotMeasured, "no control");
    }

    #[test]
    fn options_are_numbers_and_causes() {
        let parsed =
            |words: &[&str]| parse(&words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
        assert!(parsed(&["--tries", "200", "--only", "quota"]).is_some_and(|it| it.tries == 200));
        assert!(parsed(&[]).is_some_and(|options| options.tries == 20));
        for wrong in [&["--tries", "0"][..], &["--only", "sundial"], &["200"], &["--tries"]] {
            assert!(parsed(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn runs_that_do_not_count_are_made_again() {
        let runs = Runs::take(|| Err("busy".to_owned()), 3);
        assert_eq!((runs.counted, runs.why_not.len()), (0, 6));
        let runs = Runs::take(|| Ok(true), 3);
        assert_eq!((runs.counted, runs.named, runs.why_not.len()), (3, 3, 0));
    }
}
