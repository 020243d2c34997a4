//! The table, and the checks on made-up workspaces.

use serde_json::json;

use super::*;

/// Metadata of the whole table without dependencies, then with these: from,
/// to, kind. What has no row is a crate from outside.
fn metadata(arrows: &[(&str, &str, Option<&str>)]) -> Value {
    let mut names: Vec<String> = CRATES.iter().map(Row::package).collect();
    let inside = names.len();
    for (from, to, _) in arrows {
        for name in [from, to] {
            if !names.iter().any(|known| known == name) {
                names.push((*name).to_owned());
            }
        }
    }
    let of = |name: &String| arrows.iter().filter(|(from, _, _)| from == name).collect::<Vec<_>>();
    let package = |name: &String| {
        let row = CRATES.iter().find(|row| row.package() == *name);
        let folder = format!("crates/{}", row.map_or(name.as_str(), |row| row.folder));
        let dependencies: Vec<Value> =
            of(name).iter().map(|(_, to, kind)| json!({ "name": to, "kind": kind })).collect();
        let manifest = format!("/w/{folder}/Cargo.toml");
        let kind = if name.ends_with("-derive") { "proc-macro" } else { "lib" };
        json!({ "name": name, "id": name, "manifest_path": manifest,
            "dependencies": dependencies, "targets": [{ "kind": [kind] }] })
    };
    let node = |name: &String| {
        let deps: Vec<Value> = of(name)
            .iter()
            .map(|(_, to, kind)| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] }))
            .collect();
        json!({ "id": name, "deps": deps })
    };
    json!({
        "workspace_root": "/w",
        "workspace_members": names[..inside],
        "packages": names.iter().map(package).collect::<Vec<_>>(),
        "resolve": { "nodes": names.iter().map(node).collect::<Vec<_>>() },
    })
}

fn found(arrows: &[(&str, &str, Option<&str>)]) -> Vec<String> {
    violations(&metadata(arrows)).iter().map(ToString::to_string).collect()
}

#[test]
fn every_arrow_of_the_table_leads_to_a_lower_row() {
    for (at, row) in CRATES.iter().enumerate() {
        let Uses::Only(folders) = row.uses else { continue };
        for folder in folders {
            let used = CRATES[..at].iter().find(|row| row.folder == *folder);
            let used = used.unwrap_or_else(|| panic!("{}: {folder} has no row above", row.folder));
            assert!(used.floor() < row.floor(), "{} is not above {folder}", row.folder);
            assert!(!used.is_top, "{}: nothing may use {folder}", row.folder);
        }
    }
}

#[test]
fn a_floor_is_one_above_the_highest_used() {
    let floor = |folder| CRATES.iter().find(|row| row.folder == folder).unwrap().floor();
    assert_eq!([floor("units"), floor("pvclock"), floor("host"), floor("kvm")], [1, 2, 3, 4]);
    let shown = "| `a` |\n\n| floor | crate | |\n| 1 | `units` | pure |\n| | `pvclock` | pure |\n\
                 | 3 | `host` | pure |\n| | `sundial` | pure |\n\n| 9 | `elsewhere` |\n";
    let found: Vec<String> = misplaced(shown).into_iter().map(|found| found.what).collect();
    assert!(found.contains(&"pvclock is on floor 2, not 1".to_owned()), "{found:?}");
    assert!(found.contains(&"kvm is not shown, on floor 4".to_owned()), "{found:?}");
    assert!(!found.iter().any(|what| what.starts_with("units") || what.starts_with("host")));
    let stale: Vec<&String> = found.iter().filter(|what| what.contains("no row")).collect();
    assert_eq!(stale, ["sundial has no row in the table of floors"]);
}

#[test]
fn a_row_without_a_crate_leaves_the_table() {
    let mut metadata = metadata(&[]);
    assert_eq!(stale(&metadata), []);
    metadata["workspace_members"].as_array_mut().unwrap().retain(|id| id != "parachron-tell");
    let found: Vec<String> = stale(&metadata).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["xtask/src/arrows/table.rs:1: the workspace has no crate tell; remove its row"]
    );
}

#[test]
fn an_arrow_that_no_manifest_has_leaves_the_table() {
    let used = |arrows: &[(&str, &str, Option<&str>)]| {
        let found = unused(&metadata(arrows));
        found.iter().filter(|found| found.what.starts_with("tell ")).count()
    };
    assert_eq!(used(&[]), 3);
    assert_eq!(used(&[("parachron-tell", "parachron-units", None)]), 2);
    assert_eq!(used(&[("parachron-tell", "parachron-units", Some("dev"))]), 3);
}

#[test]
fn a_pure_crate_of_the_table_uses_pure_crates() {
    for row in CRATES.iter().filter(|row| row.is_pure) {
        let impure = CRATES.iter().find(|other| row.may_use(other) && !other.is_pure);
        assert!(impure.is_none(), "{} may use {:?}", row.folder, impure.map(|row| row.folder));
    }
}

#[test]
fn arrows_down_are_allowed() {
    let arrows = [
        ("parachron-pvclock-c", "pvclock", None),
        ("parachron-linux", "rustix", None),
        ("parachron-doctor", "parachron-facts", None),
        ("parachron-doctor", "serde", None),
        ("parachron-lab", "parachron-kvm", None),
        ("parachron", "parachron-daemon", None),
        ("parachron", "clap", None),
        ("pvclock", "proptest", Some("dev")),
        ("pvclock", "parachron-linux", Some("dev")),
    ];
    assert_eq!(found(&arrows), Vec::<String>::new());
}

#[test]
fn an_arrow_up_or_sideways_is_a_violation() {
    assert_eq!(
        found(&[("pvclock", "parachron-linux", None)]),
        ["crates/pvclock/Cargo.toml:1: pvclock may not use linux: arrows only go down; \
             move the shared part to a lower floor"]
    );
    for (from, to) in [
        ("parachron-instruments", "parachron-facts"),
        ("parachron-linux", "parachron-doctor"),
        ("parachron-lab", "parachron-doctor"),
        ("parachron-daemon", "parachron-vmm"),
        ("parachron-daemon", "parachron-lab"),
    ] {
        assert_eq!(found(&[(from, to, None)]).len(), 1, "{from} -> {to}");
        assert_eq!(found(&[(from, to, Some("build"))]).len(), 1, "{from} -> {to}, build");
    }
}

#[test]
fn nothing_uses_the_top_and_tests_neither() {
    assert_eq!(
        found(&[("parachron-linux", "parachron", Some("dev"))]),
        ["crates/linux/Cargo.toml:1: linux uses cli, which nothing may use; \
             move the shared part to a lower floor, a test to e2e"]
    );
    assert_eq!(found(&[("e2e", "machines", None)]).len(), 1);
}

#[test]
fn a_pure_crate_uses_few_crates_from_outside() {
    assert_eq!(
        found(&[("parachron-doctor", "regex", None)]),
        ["crates/doctor/Cargo.toml:1: parachron-doctor uses regex and must stay pure; \
             do without, or move the code to a crate that is not pure"]
    );
}

#[test]
fn a_pure_crate_links_no_system_library_however_far_away() {
    let arrows = [
        ("parachron-doctor", "serde", None),
        ("serde", "parking", None),
        ("parking", "libc", None),
    ];
    assert_eq!(
        found(&arrows),
        ["crates/doctor/Cargo.toml:1: parachron-doctor is pure and links a system library: \
             parachron-doctor -> serde -> parking -> libc; \
             remove the first dependency of this path, or its feature"]
    );
    // Neither tests and build scripts nor a macro's own dependencies count.
    let unlinked = [
        ("parachron-doctor", "serde", None),
        ("serde", "libc", Some("build")),
        ("serde", "nix", Some("dev")),
        ("serde", "serde-derive", None),
        ("serde-derive", "rustix", None),
    ];
    assert_eq!(found(&unlinked), Vec::<String>::new());
}

#[test]
fn a_crate_without_a_row_or_with_another_name_is_a_violation() {
    let mut metadata = metadata(&[]);
    let path = "/w/crates/stranger/Cargo.toml";
    metadata["packages"][0]["manifest_path"] = json!(path);
    metadata["packages"][1]["name"] = json!("a-stranger");
    let found: Vec<String> = violations(&metadata).iter().map(ToString::to_string).collect();
    assert!(
        found[0].starts_with("crates/kernel-clock/Cargo.toml:1: package a-stranger in"),
        "{found:?}"
    );
    assert!(found[1].starts_with("crates/stranger/Cargo.toml:1: crate parachron-units has no row"));
    assert_eq!(found.len(), 2, "{found:?}");
}
