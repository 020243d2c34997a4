//! The table against made-up workspaces.

use serde_json::json;

use super::*;

/// A workspace of one package with one dependency.
fn verdict(package: &str, dependency: &str, kind: Option<&str>) -> Vec<String> {
    let member = |name: &str, dependencies: Value| {
        json!({
            "name": name,
            "manifest_path": format!("/w/crates/{name}/Cargo.toml"),
            "dependencies": dependencies,
        })
    };
    let all = [
        "pvclock",
        "parachron-instruments",
        "parachron-platform",
        "parachron-doctor",
        "parachron",
        "xtask",
    ];
    let mut packages = vec![member(package, json!([{"name": dependency, "kind": kind}]))];
    packages
        .extend(all.iter().filter(|name| **name != package).map(|name| member(name, json!([]))));
    let metadata = json!({"workspace_root": "/w", "packages": packages});
    judge(&metadata).iter().map(ToString::to_string).collect()
}

#[test]
fn arrows_down_are_fine() {
    for (from, to) in [
        ("parachron-pvclock-c", "pvclock"),
        ("parachron-instruments", "pvclock"),
        ("parachron-platform", "pvclock"),
        ("parachron-platform", "rustix"),
        ("parachron-doctor", "parachron-platform"),
        ("parachron-doctor", "serde"),
        ("parachron", "parachron-doctor"),
        ("parachron", "clap"),
    ] {
        assert_eq!(verdict(from, to, None), Vec::<String>::new(), "{from} -> {to}");
    }
}

#[test]
fn an_arrow_up_or_sideways_is_refused() {
    assert_eq!(
        verdict("pvclock", "parachron-platform", None),
        ["crates/pvclock/Cargo.toml:1: pvclock may not use platform: arrows only go down; \
             move the shared part to a lower floor"]
    );
    for (from, to) in [
        ("parachron-instruments", "parachron-platform"),
        ("parachron-platform", "parachron-doctor"),
        ("parachron-doctor", "parachron"),
    ] {
        assert_eq!(verdict(from, to, None).len(), 1, "{from} -> {to}");
        assert_eq!(verdict(from, to, Some("build")).len(), 1, "{from} -> {to}, build");
    }
}

#[test]
fn a_pure_crate_takes_nothing_impure_from_outside() {
    for (from, to) in
        [("pvclock", "serde"), ("parachron-instruments", "rand"), ("parachron-doctor", "rustix")]
    {
        let said = verdict(from, to, None);
        assert_eq!(said.len(), 1, "{from} -> {to}");
        assert!(said[0].contains("to stay pure"), "{said:?}");
    }
    assert_eq!(verdict("pvclock", "proptest", Some("dev")), Vec::<String>::new());
}

#[test]
fn tests_may_reach_anything_but_the_top() {
    assert_eq!(verdict("pvclock", "parachron-platform", Some("dev")), Vec::<String>::new());
    assert_eq!(
        verdict("parachron-platform", "parachron", Some("dev")),
        ["crates/platform/Cargo.toml:1: tests of platform use parachron, the top floor; \
             move the test to e2e"]
    );
}

#[test]
fn a_crate_without_a_row_is_asked_for_one() {
    let said = verdict("newcomer", "serde", None);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("crates/newcomer/Cargo.toml:1: crate newcomer has no row"));
}
