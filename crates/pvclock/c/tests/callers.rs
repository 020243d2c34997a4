//! Programs in other languages find the installed library, and read a page by it.

#[path = "c_programs/installed.rs"]
mod installed;

use crate::library::lines;

/// Of a live machine: version, TSC, ns; then mul, shift -1 and flags in one word.
const PAGE: [u64; 4] = [32, 3_451_391_528, 1_411_981_263, 3_512_650_788 | 0x01ff << 32];

#[test]
fn every_language_reads_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    std::fs::write(&page, PAGE.map(u64::to_le_bytes).concat()).unwrap();
    for (language, output) in
        installed::outputs(&["read_clock", page.to_str().unwrap(), "5896819528"])
    {
        let expected: &[&str] = if language == "CMake" {
            &[
                "page: version 32, flags 0x1, TSC 3451391528 = 1411981263 ns",
                "rate: mul 3512650788, shift -1: 2445428000 Hz",
                "5896819528: 2411981262 ns",
            ]
        } else {
            &["2411981262 ns", "a pointer is NULL"]
        };
        let lines = lines(&output);
        // The example's last line is of now.
        assert!(lines.starts_with(expected), "{language}: {lines:?}");
    }
}
