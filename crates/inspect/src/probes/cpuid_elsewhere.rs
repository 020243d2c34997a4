//! CPUID, on processors that have none.

use facts::{Fact, Unknown};

pub(crate) fn leaves(_: bool) -> Fact<String> {
    Fact::Unknown(Unknown::not_applicable("only x86 has CPUID"))
}
