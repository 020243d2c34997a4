//! CPU time stolen by the host while something else is measured.

use std::time::Instant;

use facts::system::{CpuTime, STAT, parse_cpu_time};
use instruments::measurements::StolenShare;

/// A measurement that has begun.
pub(crate) struct Steal {
    began: Instant,
    before: Option<CpuTime>,
}

impl Steal {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), before: cpu_time() }
    }

    /// `None` where `/proc/stat` does not tell, or a CPU came or went.
    pub(crate) fn end(self) -> Option<StolenShare> {
        let over_s = self.began.elapsed().as_secs_f64();
        let share = cpu_time()?.stolen_since(self.before?, over_s)?;
        Some(StolenShare { share, over_s })
    }
}

fn cpu_time() -> Option<CpuTime> {
    parse_cpu_time(&std::fs::read_to_string(STAT).ok()?).value().copied()
}
