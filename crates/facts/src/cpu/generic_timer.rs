//! arm64's generic timer: the counter that programs read, and what its
//! registers state.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Fact, Unknown};

const FILE: &str = "parachron/generic-timer";

/// What the generic timer states of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GenericTimer {
    /// CNTFRQ_EL0, in Hz: what firmware or the hypervisor wrote there; 0 where
    /// it wrote nothing, or the register is not readable.
    pub hz: u64,
    /// Programs may read CNTVCT_EL0.
    pub readable: bool,
    /// There is CNTVCTSS_EL0 (FEAT_ECV), which is ordered without a barrier.
    pub self_synchronised: bool,
}

/// The fact on any other processor.
pub fn not_arm64() -> Fact<GenericTimer> {
    Fact::Unknown(Unknown::not_applicable("only arm64 has a generic timer"))
}

/// The fields of `parachron/generic-timer`.
pub fn parse(text: &str) -> Fact<GenericTimer> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    match (field("frequency_hz "), field("readable "), field("self_synchronised ")) {
        (Some(hz), Some(readable @ 0..=1), Some(ecv @ 0..=1)) => {
            Fact::Known(GenericTimer { hz, readable: readable == 1, self_synchronised: ecv == 1 })
        }
        _ => Fact::Unknown(Unknown::malformed(
            FILE,
            "frequency_hz, readable and self_synchronised",
            text,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registers_are_read_and_junk_is_not() {
        let text = "frequency_hz 24000000\nreadable 1\nself_synchronised 0\n";
        let timer = GenericTimer { hz: 24_000_000, readable: true, self_synchronised: false };
        assert_eq!(parse(text), Fact::Known(timer));
        for junk in ["", "frequency_hz -1\nreadable 1\nself_synchronised 0\n", "readable 2\n"] {
            assert!(parse(junk).value().is_none(), "{junk}");
        }
    }
}
