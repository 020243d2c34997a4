use super::*;
use crate::commands::lab::tests::report;
use crate::output::plot::tests::check;

#[test]
fn text_is_inside_and_does_not_overlap() {
    check(&svg(&report()));
}

#[test]
fn a_report_with_nothing_to_draw_is_still_a_picture() {
    let mut empty = report();
    empty.lab.experiments.clear();
    let svg = svg(&empty);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
}
