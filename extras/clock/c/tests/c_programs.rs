//! C and C++ programs compile against the header, link with the library, and
//! give the time.

#[path = "../../../../crates/pvclock/c/tests/c_programs/library.rs"]
mod library;

use std::process::Command;

use library::{has_cpp, lines, program};

fn monotonic_ns() -> u64 {
    clock::shared().now_ordered().as_nanos()
}

/// Ours, the program's, ours again: in this order, as both follow
/// CLOCK_MONOTONIC.
#[test]
fn the_example_gives_the_same_time_as_rust() {
    let (_folder, program) = program("cc", "-std=c11", "examples/what_time.c");
    let before = monotonic_ns();
    let output = Command::new(&program).output().unwrap();
    let after = monotonic_ns();
    let lines = lines(&output);
    let printed = lines[0].strip_prefix("monotonic: ").unwrap().strip_suffix(" ns").unwrap();
    let printed: u64 = printed.parse().unwrap();
    assert!(before < printed && printed < after, "{before} ns, then {printed} ns, then {after} ns");
    assert!(lines[1].starts_with("time of day: "), "{lines:?}");
    assert!(lines[2].starts_with("counts: the "), "{lines:?}");
    assert!(lines[4].ends_with(" ns a read"), "{lines:?}");
}

#[test]
fn every_function_answers_c_as_the_header_says() {
    let (_folder, program) = program("cc", "-std=c11", "tests/interface.c");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(lines(&output), ["all as documented"]);
}

#[test]
fn cpp_programs_can_use_the_header() {
    if !has_cpp() {
        return;
    }
    let (_folder, program) = program("c++", "-std=c++11", "tests/header.cpp");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(lines(&output), ["time goes forward"]);
}
