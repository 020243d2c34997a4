//! The kernel's clock sources.

use facts::clocksource::{AVAILABLE, CURRENT, Clocksources, parse_available, parse_current};

use crate::tree::Tree;

pub(super) fn clocksources(tree: &Tree) -> Clocksources {
    Clocksources {
        available: tree.text(AVAILABLE).and_then(|text| parse_available(&text)),
        current: tree.text(CURRENT).and_then(|text| parse_current(&text)),
    }
}
