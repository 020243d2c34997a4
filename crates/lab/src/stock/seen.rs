//! What a stock kernel says of its clocks: written inside as one line of JSON on the
//! serial port, read outside.

use serde::{Deserialize, Serialize};

use super::vmclock;

/// The line begins with this.
const MARK: &str = "parachron-linux-1 ";
/// The longest line that is taken.
const LINE_BYTES: usize = 64 << 10;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StockEvidence {
    /// `uname -r`.
    pub(super) release: String,
    /// CPUs online.
    pub(super) cpus: u32,
    pub(super) clocksource: String,
    pub(super) available: Vec<String>,
    /// Lines of the kernel's log about clocks.
    pub(super) log: Vec<String>,
    /// The doctor's findings: severity and rule, `warning tsc-not-constant`.
    pub(super) findings: Vec<String>,
    /// Kinds of what `watch` reported.
    pub(super) disruptions: Vec<String>,
    /// Commands that could not run, and why.
    pub(super) errors: Vec<String>,
    /// The clocks at the beginning and at the end.
    pub(super) readings: Vec<StockReading>,
    /// The VMClock then, if the kernel has one.
    #[serde(default)]
    pub(super) vmclock: Vec<vmclock::VmClockReading>,
    /// Whether another kernel booted this one by kexec.
    #[serde(default)]
    pub(super) again: bool,
}

/// Clocks read between two readings of the TSC of vCPU 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StockReading {
    /// Before and after.
    pub(super) tsc: (u64, u64),
    /// CLOCK_REALTIME.
    pub(super) real_ns: u64,
    /// CLOCK_MONOTONIC_RAW.
    pub(super) raw_ns: u64,
}

impl StockEvidence {
    /// The line.
    pub(super) fn line(&self) -> String {
        format!("\n{MARK}{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    /// What the serial port has of it: nothing yet, a whole line, or one that is
    /// none of ours.
    pub(super) fn find(serial: &str) -> Option<Result<Self, String>> {
        let (_, rest) = serial.rsplit_once(MARK)?;
        // The kernel's words may follow at once, in the middle of a line end.
        match serde_json::Deserializer::from_str(rest).into_iter().next()? {
            Ok(seen) => Some(Ok(seen)),
            Err(error) if error.is_eof() && rest.len() <= LINE_BYTES => None,
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_the_log_when_it_is_whole() {
        let seen = StockEvidence {
            release: "6.1.0-56-amd64".to_owned(),
            cpus: 1,
            clocksource: "kvm-clock".to_owned(),
            available: Vec::new(),
            log: vec!["kvm-clock: \"quoted\"\n".to_owned()],
            findings: Vec::new(),
            disruptions: Vec::new(),
            errors: Vec::new(),
            readings: vec![StockReading { tsc: (10, 15), real_ns: 1, raw_ns: 2 }],
            vmclock: Vec::new(),
            again: false,
        };
        let serial = format!("[    0.1] booting\r\n{}\r\n[ 2.0] restarting", seen.line());
        assert_eq!(StockEvidence::find(&serial), Some(Ok(seen.clone())));
        assert_eq!(StockEvidence::find(&serial[..serial.len() / 2]), None);
        assert!(
            StockEvidence::find(&format!("{MARK}{{}}\n")).unwrap().unwrap_err().contains("release")
        );
        let closely = format!("{}[ 2.0] reboot: Restarting", seen.line().trim_end());
        assert_eq!(StockEvidence::find(&closely), Some(Ok(seen.clone())));
        assert!(
            StockEvidence::find(&format!("{MARK}\"{}", "x".repeat(LINE_BYTES + 1)))
                .unwrap()
                .is_err()
        );
    }
}
