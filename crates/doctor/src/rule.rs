//! What a rule is.

use crate::case::Case;
use crate::finding::Harm;
use crate::outcome::Check;

/// One rule: a row of the table, from which the guide's page is made too.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Stable name: `slow-clocksource`.
    pub name: &'static str,
    /// What its findings do to the time, unless one states that it is wrong now.
    pub harm: Harm,
    /// What it checks, and its limits.
    pub checks: &'static str,
    /// The vendor document, kernel file or manual section it rests on.
    pub source: &'static str,
    pub(crate) check: fn(&Case<'_>) -> Check,
}
