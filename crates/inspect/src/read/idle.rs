//! How CPUs go idle.

use facts::cpu::{GUEST_HALT_POLL, HALT_POLL, IDLE_DRIVER, IDLE_GOVERNOR, Idle, L1TF};
use facts::parse;

use crate::tree::Tree;

pub(super) fn idle(tree: &Tree) -> Idle {
    let line = |path: &str| tree.text(path).and_then(|text| parse::line(path, &text));
    let number = |path: &str| tree.text(path).and_then(|text| parse::number(path, &text));
    Idle {
        driver: line(IDLE_DRIVER),
        governor: line(IDLE_GOVERNOR),
        guest_halt_poll_ns: number(GUEST_HALT_POLL),
        halt_poll_ns: number(HALT_POLL),
        l1tf: line(L1TF),
    }
}
