//! What a scenario sets as limits, beside the promises of the code inside.

use serde::Deserialize;

use crate::quantity::{Millis, Seconds};
use crate::scenario::ScenarioCorrector;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A clock that is off by no more is right, ms. The keeper leaves what lies
    /// within twice the servers' bounds, of which half the way is part.
    pub right_ms: Millis,
    /// It is right again so long after a fault, s; not checked where that is left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<Seconds>,
    /// It is never off by more, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_s: Option<Seconds>,
    /// Under which disciplines both are checked.
    pub disciplines: Limited,
}

impl Default for Limits {
    fn default() -> Self {
        let disciplines = Limited::All;
        Self { right_ms: Millis(15.0), recovery_s: None, error_s: None, disciplines }
    }
}

/// The disciplines that a scenario's limits are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limited {
    /// Each.
    #[default]
    All,
    /// Those with the keeper: others are there to be compared with it.
    Keepers,
}

impl Limits {
    /// The limits of the error and of the time to be right under a discipline, ns.
    pub(crate) fn checked_ns(&self, corrector: ScenarioCorrector) -> [Option<i64>; 2] {
        let has_keeper = corrector == ScenarioCorrector::Keeper;
        let is_checked = has_keeper || self.disciplines == Limited::All;
        [self.error_s, self.recovery_s].map(|limit| limit.filter(|_| is_checked).map(|s| s.ns()))
    }
}
