//! Exits to the host: no instruction of this processor makes one everywhere.

use std::time::Duration;

use instruments::latency::FigureKind;

use super::LatencyRun;

/// Says so.
pub(super) fn measure(run: &mut LatencyRun<'_>, _cpu: u32, _length: Duration) {
    run.found
        .miss(FigureKind::Exit.name(), "only x86 has an instruction that always exits to the host");
}
