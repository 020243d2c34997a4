//! Which lines of a log can be about clocks at all, by one pass over their bytes: of a long
//! log nearly none, and each of the others costs some fifty searches for phrases.

use std::sync::LazyLock;

/// Every line that [`event::parse`](super::event::parse) takes, or that
/// [`PastedLog`](super::pasted::PastedLog) joins to another, has at least one of these.
const SIGNS: &[&str] = &[
    "lock", // clock, Clock, clocksource, soft lockup
    "TSC",
    "tsc",
    "hpet",
    "PM-Timer",
    "acpi_pm",
    "pmtmr",
    "rtc",
    "timer",
    "tick",
    "NOHZ",
    "PTP clock",
    "ptp_",
    "vmgenid",
    "hv_utils: ",
    "Hyper-V",
    "hyperv: ",
    "Hypervisor detected",
    "Booting paravirtualized",
    "Xen",
    "xen: ",
    "vmware: ",
    "imekeeping",
    "high resolution mode",
    "smccc: ",
    "arm-pv: ",
    // Frequencies.
    "MHz",
    "GHz",
    "BogoMIPS",
    "alibration",
    // The watchdog's figures.
    "watchdog",
    "read-back delay",
    "times before success",
    "read timed out",
    "' wd_",
    "' cs_",
    "' wd2_",
    "' skewed",
    "_nsec:",
    "_now:",
    "_last:",
    " interval:",
    "(cycles)",
    "probe at ",
    // From outside.
    "Time went backwards",
    "TimeSync",
    "random: crng",
    "hot-added",
    "hotplugged",
    "PM: ",
    "leap second",
    "rcu",
    // Time daemons.
    "Initial frequency",
    "frequency error",
    "Radical host time",
    "time reset",
    "time stepped",
    "time set ",
    "step time server",
    "time jump",
    "Time jump",
    "no majority",
    "TIME_ERROR",
];

/// One bit for each pair of bytes with which a sign begins.
static PAIRS: LazyLock<[u64; 1024]> = LazyLock::new(|| {
    let mut pairs = [0; 1024];
    for sign in SIGNS {
        if let [first, second, ..] = sign.as_bytes() {
            let pair = (usize::from(*first) << 8) | usize::from(*second);
            pairs[pair / 64] |= 1 << (pair % 64);
        }
    }
    pairs
});

/// Whether a line has one.
pub(super) fn has_sign(text: &str) -> bool {
    let (bytes, pairs) = (text.as_bytes(), &*PAIRS);
    bytes.windows(2).enumerate().any(|(at, window)| {
        let pair = (usize::from(window[0]) << 8) | usize::from(window[1]);
        (pairs[pair / 64] >> (pair % 64)) & 1 == 1
            && SIGNS.iter().any(|sign| bytes[at..].starts_with(sign.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use units::random::SplitMix64;

    use super::super::{event, pasted};
    use super::*;

    /// Every line of the published logs, of the verdicts' logs and of the tests' own.
    fn lines() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut text = include_str!("event/tests.rs").to_owned();
        text += include_str!("pasted/tests.rs");
        for folder in ["../../testdata/logs", "../../testdata/verdicts"] {
            for entry in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
                let path = entry.expect("it is read").path();
                let log = if path.is_dir() { path.join("log.txt") } else { path };
                if let Ok(bytes) = std::fs::read(&log) {
                    text += &String::from_utf8_lossy(&bytes);
                    text.push('\n');
                }
            }
        }
        text.lines().map(str::to_owned).collect()
    }

    fn is_needed(text: &str) -> bool {
        event::parse(text).is_some()
            || pasted::is_unfinished(text)
            || pasted::of_daemon(text).is_some()
    }

    #[test]
    fn no_line_about_clocks_is_left_out() {
        let lines = lines();
        let mut random = SplitMix64::new(7);
        let (mut needed, mut without) = (0, 0);
        for line in &lines {
            let mut line: Vec<char> = line.chars().collect();
            for _ in 0..12 {
                let text: String = line.iter().collect();
                let at = text.find(|c: char| c.is_ascii_alphabetic() || c == '\'').unwrap_or(0);
                // As a test quotes it, as it stands, and from its first word on.
                for text in [text.trim(), &text[at..], text.trim_matches([' ', '"', ','])] {
                    if is_needed(text) {
                        needed += 1;
                        assert!(has_sign(text), "{text}");
                    }
                    without += u32::from(!has_sign(text));
                }
                // Then with some letters fewer.
                for _ in 0..3 {
                    if !line.is_empty() {
                        line.remove(random.below(line.len() as u64) as usize);
                    }
                }
            }
        }
        assert!(needed > 5_000 && without > 10_000, "{needed} {without}");
    }
}
