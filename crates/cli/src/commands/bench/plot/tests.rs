use super::*;
use crate::commands::bench::sample::{report, run, three_sources};
use crate::output::plot::tests::check;

#[test]
fn texts_are_inside_and_do_not_overlap() {
    check(&svg(&report(vec![run("tsc", 27.1)])));
    check(&svg(&three_sources()));
}

#[test]
fn a_report_with_nothing_measured_is_still_a_picture() {
    let mut empty = run("tsc", 27.1);
    empty.costs.clear();
    let svg = svg(&report(vec![empty]));
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
}

#[test]
fn one_source_is_coloured_by_what_serves_a_call() {
    let svg = svg(&report(vec![run("tsc", 27.1)]));
    for words in ["instruction", "vDSO", "kernel", "clocksource tsc"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(!svg.contains("not counted"));
}
