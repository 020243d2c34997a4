//! The kernel's clock sources.

pub mod known;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fact, Unknown};

/// What `/sys/devices/system/clocksource/clocksource0` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clocksources {
    /// Sources one may switch to, in the kernel's order (best rating first).
    pub available: Fact<Vec<String>>,
    /// The source in use.
    pub current: Fact<String>,
}

/// Path of the file.
pub const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Path of the file.
pub const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The kernel's own limit (`CS_NAME_LEN`, kernel/time/clocksource.c).
const MAX_NAME: usize = 32;

/// The names in `available_clocksource`.
pub fn parse_available(text: &str) -> Fact<Vec<String>> {
    let names: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    if names.is_empty() || !names.iter().all(|name| is_name(name)) {
        return Fact::Unknown(Unknown::malformed(AVAILABLE, "names of clock sources", text));
    }
    Fact::Known(names)
}

/// The name in `current_clocksource`.
pub fn parse_current(text: &str) -> Fact<String> {
    let name = text.trim();
    if !is_name(name) {
        return Fact::Unknown(Unknown::malformed(CURRENT, "the name of a clock source", text));
    }
    Fact::Known(name.to_owned())
}

/// Whether it could be a source's name; which ones exist is for kernels to say.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}
