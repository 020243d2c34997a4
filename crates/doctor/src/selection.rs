//! Which rules are applied.

use crate::rule::Rule;
use crate::rules::RULES;

/// The rules that a person asked for: all, unless some are named.
///
/// ```
/// use doctor::selection::RuleSelection;
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
