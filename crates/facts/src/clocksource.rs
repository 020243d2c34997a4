//! The kernel's clock sources.

pub mod known;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Fact, Unknown};

/// The contents of `/sys/devices/system/clocksource/clocksource0`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Clocksources {
    /// Sources one may switch to, in the kernel's order (best rating first); the one
    /// in use may be missing.
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

/// The names in `available_clocksource`: none where the timers are of high resolution
/// and no source is fit for them any more, as after the TSC of a machine without
/// another was given up (kernel/time/clocksource.c, `available_clocksource_show`).
pub fn parse_available(text: &str) -> Fact<Vec<String>> {
    let names: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    if !names.iter().all(|name| is_name(name)) {
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

/// Whether it may be a source's name; which ones exist depends on the kernel.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_names_and_may_be_empty() {
        let known = |text| parse_available(text).value().cloned();
        assert_eq!(known("tsc hpet \n"), Some(vec!["tsc".to_owned(), "hpet".to_owned()]));
        assert_eq!(known("\n"), Some(Vec::new()), "no source is fit for the timers");
        assert_eq!(known("tsc \u{1}\n"), None);
    }
}
