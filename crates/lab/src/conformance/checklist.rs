//! The checks of one clock.

use crate::bench::Maker;
use crate::results::{Check, Verdict};
use crate::settings::LabError;

#[derive(Debug)]
pub(super) struct Checklist {
    label: &'static str,
    pub(super) checks: Vec<Check>,
}

impl Checklist {
    pub(super) fn of(maker: Maker) -> Self {
        Self { label: maker.label(), checks: Vec::new() }
    }

    pub(super) fn judged(
        &mut self,
        name: &str,
        expected: &str,
        found: impl Into<String>,
        verdict: Verdict,
    ) {
        let name = format!("{}: {name}", self.label);
        self.checks.push(Check { name, expected: expected.into(), found: found.into(), verdict });
    }

    pub(super) fn holds(
        &mut self,
        name: &str,
        expected: &str,
        found: impl Into<String>,
        holds: bool,
    ) {
        self.judged(name, expected, found, Verdict::of(holds));
    }

    pub(super) fn not_measured(&mut self, name: &str, expected: &str, why: impl Into<String>) {
        self.judged(name, expected, "", Verdict::NotMeasured(why.into()));
    }

    /// The test itself ended with an error.
    pub(super) fn fails(&mut self, name: &str, error: &LabError) {
        self.judged(name, "the guest replies", error.to_string(), Verdict::Failed);
    }
}
