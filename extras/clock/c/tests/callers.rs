//! Programs in other languages find the installed library, and read its clock.

#[path = "../../../../crates/pvclock/c/tests/c_programs/installed.rs"]
mod installed;
#[allow(dead_code, reason = "c_programs.rs uses the rest")]
#[path = "../../../../crates/pvclock/c/tests/c_programs/library.rs"]
mod library;

use library::lines;

#[test]
fn every_language_reads_the_same_clock() {
    let start = clock::shared().now_ordered().as_nanos();
    let outputs = installed::outputs(&["what_time"]);
    let end = clock::shared().now_ordered().as_nanos();
    for (language, output) in &outputs {
        let lines = lines(output);
        let time = lines[0].trim_start_matches("monotonic: ").trim_end_matches(" ns");
        let time: u64 = time.parse().unwrap();
        assert!(start < time && time < end, "{language}: {start} ns, {time} ns, {end} ns");
        let expected = if *language == "CMake" {
            lines[1].contains("time of day")
        } else {
            lines[1] == "a time of day"
        };
        assert!(expected, "{language}: {lines:?}");
    }
}
