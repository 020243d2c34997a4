//! What the end-to-end tests share: cases that declare what they need, and
//! the program that they run.
//!
//! A case whose need this machine does not meet is marked ignored, with the
//! reason before its name, so that the closing line counts it.

pub mod chronyd;
pub mod clockbound_clients;
mod need;
pub mod ntp_server;
mod program;

use std::panic::{AssertUnwindSafe, catch_unwind};

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

pub use need::{Need, kernel};
pub use program::{Program, ProgramOutput, project};

/// One end-to-end test.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What holds, as a name.
    pub name: &'static str,
    /// What it cannot do without.
    pub needs: &'static [Need],
    /// Panics where it does not hold.
    pub run: fn(&Program),
}

/// Runs the cases as `cargo test` runs tests.
pub fn run(cases: impl IntoIterator<Item = Case>) -> Conclusion {
    let mut arguments = Arguments::from_args();
    // One at a time: some measure, and some change what others would measure.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, cases.into_iter().map(trial).collect())
}

fn trial(case: Case) -> Trial {
    let missing: Vec<String> = case.needs.iter().filter_map(|need| need.missing()).collect();
    if missing.is_empty() {
        return Trial::test(case.name, move || {
            let program = Program::built()?;
            catch_unwind(AssertUnwindSafe(|| (case.run)(program)))
                .map_err(|_| Failed::from("panicked, see above"))
        });
    }
    let why = missing.join(", ");
    let kind = format!("skipped: {why}");
    Trial::test(case.name, move || Err(why.into())).with_kind(kind).with_ignored_flag(true)
}
