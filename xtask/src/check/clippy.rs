//! Clippy, on the workspace and on the guest's image.

use crate::outside::{self, Outcome};
use crate::project::Project;

/// A workspace of its own, without an operating system.
const IMAGE: &str = "crates/vmm/guest/image/Cargo.toml";

pub(super) fn check(project: &Project) -> Outcome {
    if !is_installed(project) {
        return Outcome::skipped("clippy is not installed", "rustup component add clippy");
    }
    // The guest's image is not a program of the host: its own build script and
    // profile build it without an operating system.
    let all = ["--workspace", "--all-targets"];
    let image = ["--release", "--manifest-path", IMAGE];
    for which in [&all[..], &image] {
        let mut command = project.cargo();
        command.args(["clippy", "--quiet"]).args(which).args(["--", "--deny", "warnings"]);
        let outcome = Outcome::of(&mut command);
        if let Outcome::Failed(_) = outcome {
            return outcome;
        }
    }
    Outcome::Passed
}

fn is_installed(project: &Project) -> bool {
    outside::is_available(project.cargo().args(["clippy", "--version"]))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// What each rule of STYLE.md that is left to the compiler and clippy
    /// refuses: the lint, and code that breaks it.
    const VIOLATIONS: [(&str, &str); 9] = [
        ("clippy::disallowed_methods", "pub fn a() { let _ = std::time::Instant::now(); }"),
        ("clippy::disallowed_methods", "pub fn b() { let _ = std::fs::read(\"x\"); }"),
        ("clippy::disallowed_methods", "use std::thread; pub fn c() { thread::spawn(|| ()); }"),
        ("clippy::disallowed_types", "pub struct D { pub at: std::time::SystemTime }"),
        ("clippy::disallowed_macros", "pub fn e() { println!(\"x\"); }"),
        ("unsafe_code", "pub fn f(p: *const u8) -> u8 { /* SAFETY: x */ unsafe { *p } }"),
        (
            "clippy::undocumented_unsafe_blocks",
            "#[allow(unsafe_code)] pub fn g(p: &u8) -> u8 { let p: *const u8 = p; unsafe { *p } }",
        ),
        ("clippy::dbg_macro", "pub fn h() { dbg!(1); }"),
        ("missing_docs", "pub const I: u8 = 0;"),
    ];

    /// What clippy prints of a crate with the workspace's lints.
    fn clippy(project: &Project, name: &str, code: &str) -> String {
        let folder = project.target_folder().join("tmp").join(name);
        let manifest = fs::read_to_string(project.path("Cargo.toml")).unwrap();
        let lints = manifest.split("[workspace.lints").skip(1).map(|section| {
            let section = section.split("\n[").next().unwrap_or_default();
            format!("[lints{section}\n")
        });
        let lints: String = lints.collect();
        let package = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("Cargo.toml"), format!("{package}{lints}")).unwrap();
        fs::write(folder.join("src/lib.rs"), code).unwrap();
        let output = project
            .cargo()
            .args(["clippy", "--offline", "--quiet", "--color", "never", "--manifest-path"])
            .arg(folder.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("CLIPPY_CONF_DIR", project.root())
            .output()
            .unwrap();
        fs::remove_dir_all(&folder).unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn each_rule_left_to_clippy_can_fail() {
        let project = Project::here();
        if !is_installed(&project) {
            return writeln!(std::io::stderr(), "skipped: clippy is not installed").unwrap();
        }
        let heading = fs::read_to_string(project.path("crates/pvclock/src/lib.rs")).unwrap();
        let start = heading.find("#![cfg_attr").unwrap();
        let attribute = &heading[start..start + heading[start..].find(")]").unwrap() + 2];
        let lines: Vec<&str> = VIOLATIONS.iter().map(|(_, code)| *code).collect();
        let long = format!("pub fn long() {{\n{}}}\n", "let _ = 0;\n".repeat(71));
        let code = format!("{attribute}\n{}\n{long}", lines.join("\n"));
        let found = clippy(&project, "violations", &code);
        let at = attribute.lines().count();
        for (index, (lint, code)) in VIOLATIONS.iter().enumerate() {
            let place = format!("src/lib.rs:{}:", at + index + 1);
            assert!(found.contains(&place), "nothing at {place} {code}\n{found}");
            let name = lint.trim_start_matches("clippy::");
            let spelled = [name.to_owned(), name.replace('_', "-")];
            assert!(spelled.iter().any(|name| found.contains(name)), "no {lint}\n{found}");
        }
        assert!(found.contains("this function has too many lines (71/70)"), "{found}");
        // Without the attribute a crate may use the system.
        let open = clippy(&project, "open", &lines[..5].join("\n"));
        assert!(!open.contains("disallowed"), "{open}");
    }
}
