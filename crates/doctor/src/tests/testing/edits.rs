//! What makes a machine sick.

use facts::hardware::PvclockPage;
use facts::kernel::{LogEvent, LogLine};
use facts::steering::Adjtimex;
use facts::{Fact, Facts};

use super::{missing, words};

/// Adds a line to the kernel log.
pub(crate) fn log(facts: &mut Facts, at_s: f64, text: &str, event: LogEvent) {
    let line = LogLine { at_s: Some(at_s), text: text.into(), event };
    let mut lines = facts.kernel.log.value().cloned().unwrap_or_default();
    lines.push(line);
    facts.kernel.log = Fact::Known(lines);
}

/// Adds words to the kernel's command line.
pub(crate) fn boot_with(facts: &mut Facts, parameters: &str) {
    if let Fact::Known(line) = &mut facts.kernel.command_line {
        line.extend(words(parameters));
    }
}

/// Makes `source` the clock source, and offers `available`.
pub(crate) fn set_source(facts: &mut Facts, source: &str, available: &str) {
    facts.clocksources.current = Fact::Known(source.into());
    facts.clocksources.available = Fact::Known(words(available));
}

/// Makes kvm-clock the clock source, with a page of these flags.
pub(crate) fn use_kvm_clock(facts: &mut Facts, flags: u8) {
    facts.clocksources.current = Fact::Known("kvm-clock".into());
    facts.pvclock_page = Fact::Known(PvclockPage {
        version: 40,
        tsc_timestamp: 1_000_000,
        system_time_ns: 5_000_000,
        tsc_to_system_mul: 0xc4ec_4ec4,
        tsc_shift: -1,
        flags,
    });
}

/// No daemon: the kernel's state after boot.
pub(crate) fn undisciplined(facts: &mut Facts) {
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        state.status |= Adjtimex::STA_UNSYNC;
        state.max_error_us = 16_000_000;
        state.tai_s = 0;
    }
    facts.steering.keepers = Fact::Known(Vec::new());
    facts.steering.chrony = missing("chronyc");
}
