//! Whatever the bytes, there is a verdict, and its size is bounded.

use facts::kernel::pasted::PastedLog;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use test_size::size;

use crate::verdict;

const LINES: [&str; 8] = [
    "[  384.258940] clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:\n",
    "[  384.261201] clocksource: 'acpi_pm' wd_now: 8d5199 wd_last: 60e92e mask: ffffff\n",
    "[  384.263168] clocksource: 'tsc' cs_now: 1981c973dc9 cs_last: 1940283c820 mask: ffffffffffffffff\n",
    "[    0.000000] Linux version 6.1.0-18-amd64 (a@b) #1 SMP\n",
    "Clocksource tsc unstable (delta = 4687619986 ns)\n",
    "Nov 21 04:26:01 host chronyd[812]: System clock was stepped by -3.144283 seconds\n",
    "\u{1b}[32m[    1.0] tsc: Detected 2600.000 MHz processor\u{1b}[0m\r\n",
    "> kernel: [   12.5] clocksource: Switched to clocksource hpet\n",
];

/// The reply's length is bounded by the lines that it quotes, not by the log.
const MOST_BYTES: usize = 256 << 10;

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(&LINES[..]).prop_map(|line| line.as_bytes().to_vec()),
        vec(any::<u8>(), 0..200),
        (prop::sample::select(&LINES[..]), any::<prop::sample::Index>(), any::<u8>()).prop_map(
            |(line, at, byte)| {
                let mut bytes = line.as_bytes().to_vec();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                bytes
            }
        ),
    ]
}

fn judge(bytes: &[u8], piece: usize) -> Value {
    let mut log = PastedLog::default();
    bytes.chunks(piece).for_each(|piece| log.push(piece));
    let reply = verdict(log.finish());
    assert!(reply.len() <= MOST_BYTES, "{} bytes", reply.len());
    serde_json::from_slice(&reply).expect("JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: size(500, 100_000), ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_a_verdict_that_no_cut_changes(
        pieces in vec(pieces(), 0..30),
        piece in 128_usize..999,
    ) {
        let bytes = pieces.concat();
        let whole = judge(&bytes, usize::MAX);
        prop_assert!(whole["text"].as_str().is_some_and(|text| !text.is_empty()));
        // The first 128 bytes tell the encoding.
        prop_assert_eq!(judge(&bytes, piece), whole);
    }
}

#[test]
fn a_verdict_is_found_among_a_hundred_thousand_lines() {
    let other = "[    7.000000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n";
    let log = other.repeat(100_000) + &LINES[..3].concat();
    let reply = judge(log.as_bytes(), 1 << 16);
    assert_eq!(reply["lines"], 100_003);
    assert_eq!(reply["diagnosis"]["findings"][0]["rule"], "tsc-marked-unstable");
}
