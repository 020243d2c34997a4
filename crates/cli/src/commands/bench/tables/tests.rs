use instruments::measurements::ReadPath;

use super::*;
use crate::commands::bench::sample::{report, run, three_sources};

/// Lines of more than 80 characters.
fn too_wide(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.chars().count() > 80).collect()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the snapshot has x86-64's instructions")]
fn one_source_as_text() {
    let text = render(&report(vec![run("tsc", 27.1)]), true);
    assert_eq!(too_wide(&text), [""; 0]);
    insta::assert_snapshot!(text);
}

#[test]
fn sources_are_side_by_side_in_80_columns() {
    let text = render(&three_sources(), true);
    assert_eq!(too_wide(&text), [""; 0]);
    let end = text.find("Cost of a call under").expect("each source's own table follows");
    insta::assert_snapshot!(&text[..end]);
}

#[test]
fn mixed_answers_are_counted_out() {
    let path = |entered| ReadPath::Counted { calls: 1000, entered };
    let paths = [
        path(0),
        path(1000),
        path(7),
        path(3),
        path(999),
        ReadPath::NotCounted,
        ReadPath::Instruction,
    ];
    assert_eq!(paths.map(served_by), ["vDSO", "kernel", "k 1 %", "k 1 %", "k 99 %", "?", "CPU"]);
}

#[test]
fn the_default_fits_one_screen() {
    let text = render(&report(vec![run("tsc", 27.1)]), false);
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.starts_with("CLOCK_MONOTONIC takes 27.1 ns"), "{text}");
}
