//! A saved clock as a text, of this version, of none, and cut short.

use pvclock::Hertz;
use pvclock_kvm::KvmClockState;

/// As version 1 wrote it: every later program reads this.
const VERSION_1: &str = include_str!("../../../../../validation/fuzz/seeds/kvm_saved/version_1");

fn read(text: &str) -> serde_json::Result<KvmClockState> {
    serde_json::from_str(text)
}

#[test]
fn version_1_is_read_and_written_again() {
    let state = read(VERSION_1).unwrap();
    assert_eq!(state.tscs.len(), 2);
    assert_eq!(state.tscs[0].frequency, Hertz(2_000_000_000));
    assert_eq!(state.tscs[0].deadline, Some(864_000_000_500_000));
    assert_eq!(state.clock.taken.tai_offset_s, Some(37));
    assert_eq!(serde_json::to_string_pretty(&state).unwrap(), VERSION_1.trim_end());
}

#[test]
fn what_is_no_saved_clock_is_refused_with_the_reason() {
    let cut = |length: usize| read(&VERSION_1[..length]).unwrap_err();
    for length in 0..VERSION_1.trim_end().len() {
        assert!(cut(length).is_eof(), "{length} bytes");
    }
    let changed = |from: &str, to: &str| {
        let text = VERSION_1.replacen(from, to, 1);
        assert_ne!(text, VERSION_1);
        read(&text).unwrap_err().to_string()
    };
    let future = changed("\"version\": 1", "\"version\": 7");
    assert!(
        future.starts_with("the saved clock has version 7; this program knows versions 1 to 1")
    );
    let unknown = changed("\"boot_ns\"", "\"smear\": 1, \"boot_ns\"");
    assert!(unknown.contains("unknown field `smear`"), "{unknown}");
    assert!(changed("\"clock_ns\": 432000000000000,", "").contains("missing field `clock_ns`"));
    assert!(changed("432000000000000", "-1").contains("invalid value"));
    let rate = changed("\"tsc_khz\": 2000000", "\"tsc_khz\": 0");
    assert!(rate.starts_with("the saved clock has a TSC of 0 kHz"));
    // A later version may look like nothing that is known.
    let later = read(r#"{"version": 2, "clocks": []}"#).unwrap_err().to_string();
    assert!(later.starts_with("the saved clock has version 2;"), "{later}");
}
