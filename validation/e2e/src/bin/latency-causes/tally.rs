//! Runs with a cause forced and without it, and the verdict on both.

use serde_json::{Value, json};

use crate::cases::{Case, Figures, Take};

/// The least share of forced runs that name the cause, and the greatest of control runs, %.
const RIGHT_PERCENT: usize = 95;
const CONTROL_PERCENT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    NotMeasured,
}

impl Verdict {
    /// As in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::NotMeasured => "not-measured",
        }
    }
}

/// Runs that count, those of them in which the cause was named, and why others did not count.
#[derive(Debug, Default)]
struct Runs {
    counted: usize,
    named: usize,
    why_not: Vec<String>,
    /// Each try's outcome and figures.
    tries: Vec<String>,
}

impl Runs {
    fn take(run: Take, tries: usize) -> Self {
        let mut runs = Self::default();
        for _ in 0..2 * tries {
            let mut figures = Figures::new();
            let outcome = run(&mut figures);
            let words = match &outcome {
                Ok(true) => "named",
                Ok(false) => "not named",
                Err(why) => why,
            };
            runs.tries.push(format!("{words}: {}", figures.join("; ")));
            match outcome {
                Ok(is_named) => {
                    runs.counted += 1;
                    runs.named += usize::from(is_named);
                }
                Err(why) => runs.why_not.push(why),
            }
            if runs.counted == tries || runs.is_hopeless(tries) {
                break;
            }
        }
        runs
    }

    /// Whether no run counted in as many as were asked for: this machine does not allow it now.
    fn is_hopeless(&self, tries: usize) -> bool {
        self.counted == 0 && self.why_not.len() >= tries
    }

    fn to_json(&self) -> Value {
        let why_not = self.why_not.last();
        json!({
            "runs": self.counted,
            "named": self.named,
            "did_not_count": self.why_not.len(),
            "why": why_not,
            "tries": self.tries,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Tally {
    name: &'static str,
    forced: Runs,
    control: Runs,
}

impl Tally {
    pub(crate) fn take(case: &Case, tries: usize) -> Self {
        eprintln!("{}", case.name);
        let forced = Runs::take(case.forced, tries);
        // What cannot be forced needs no control.
        let control =
            if forced.counted > 0 { Runs::take(case.control, tries) } else { Runs::default() };
        Self { name: case.name, forced, control }
    }

    pub(crate) fn verdict(&self) -> Verdict {
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

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cause": self.name,
            "verdict": self.verdict().name(),
            "forced": self.forced.to_json(),
            "control": self.control.to_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(forced: [usize; 2], control: [usize; 2]) -> Verdict {
        let runs = |[counted, named]: [usize; 2]| Runs { counted, named, ..Runs::default() };
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
    fn runs_that_do_not_count_are_repeated() {
        let runs = Runs::take(|_| Err("busy".to_owned()), 3);
        assert_eq!((runs.counted, runs.why_not.len()), (0, 3), "none counts");
        static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let every_second = |figures: &mut Figures| {
            figures.push("9.5 µs".to_owned());
            let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if call.is_multiple_of(2) { Err("busy".to_owned()) } else { Ok(true) }
        };
        let runs = Runs::take(every_second, 3);
        assert_eq!((runs.counted, runs.named, runs.why_not.len()), (3, 3, 3));
        assert_eq!(runs.tries[..2], ["busy: 9.5 µs", "named: 9.5 µs"]);
    }
}
