use super::{Cell, Column, ReportTable, wrap};

fn costs() -> ReportTable {
    let mut table = ReportTable::new(
        "Cost of a call",
        [Column::names("call"), Column::figures("median", "ns"), Column::words("served from")],
    );
    table.row(["time".into(), Cell::figure(1.23456, 1), "vDSO, or so".into()]);
    table.row(["a|b".into(), Cell::none(), "the \"kernel\"".into()]);
    table.note("b: not measured: no such clock");
    table
}

#[test]
fn text_sets_figures_right_and_units_under_headings() {
    insta::assert_snapshot!(costs().text(), @r#"
    Cost of a call
    call  median  served from
              ns
    ───────────────────────────
    time     1.2  vDSO, or so
    a|b        –  the "kernel"
    b: not measured: no such clock
    "#);
}

#[test]
fn text_is_never_wider_than_80_columns() {
    let mut table = ReportTable::new("", [Column::names("name"), Column::words("words")]);
    table.row(["x".repeat(20).into(), "several words ".repeat(20).into()]);
    table.note("several words ".repeat(20));
    let widest = table.text().lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}:\n{}", table.text());
    assert!(widest > Some(70), "{widest:?}:\n{}", table.text());
}

#[test]
fn foreign_text_cannot_move_the_cursor() {
    let mut table = ReportTable::new("", [Column::words("log")]);
    table.row(["a\u{1b}[2Jb\u{7}".into()]);
    table.note("x\u{1b}]0;y");
    assert!(!table.text().contains(['\u{1b}', '\u{7}']), "{:?}", table.text());
}

#[test]
fn wrapping_keeps_long_words_whole() {
    let command = "a".repeat(30);
    assert_eq!(wrap(&format!("try: {command} now"), 20), format!("try:\n{command}\nnow"));
}
