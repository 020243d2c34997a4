//! The kernel's clock sources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// What `/sys/devices/system/clocksource/clocksource0` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clocksources {
    /// Sources one may switch to, in the kernel's order (best rating first).
    pub available: Fact<Vec<String>>,
    /// The source in use.
    pub current: Fact<String>,
}
