//! What a rule is, and which are applied.

use crate::case::Case;
use crate::finding::Harm;
use crate::outcome::Check;
use crate::rules::RULES;

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

/// The rules that a person asked for: all, unless some are named.
///
/// ```
/// use doctor::rule::RuleSelection;
/// let one = RuleSelection { only: vec!["steal-time".into()], ..RuleSelection::default() };
/// assert_eq!(one.rules().count(), 1);
/// let all = RuleSelection::default();
/// assert_eq!(all.rules().count(), doctor::rules::RULES.len());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSelection {
    /// Only these, by name; all where it is empty.
    pub only: Vec<String>,
    /// Not these, by name.
    pub ignore: Vec<String>,
}

impl RuleSelection {
    /// The rules, in the table's order. A name of no rule selects nothing.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        let named = |names: &[String], rule: &Rule| names.iter().any(|name| name == rule.name);
        RULES.iter().filter(move |rule| {
            (self.only.is_empty() || named(&self.only, rule)) && !named(&self.ignore, rule)
        })
    }
}
