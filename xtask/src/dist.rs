//! `cargo xtask dist`: what is published, in `target/packages`: static programs in a tarball, Debian's
//! and RPM packages, the list of what is inside with its licences, and checksums. No file has a
//! folder or the time of the machine that built it; the one time in it is the commit's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{fs, io};

use serde_json::{Value, json};

use crate::outside;
use crate::project::Project;

/// Where files are prepared that the packages' manifests name: below the root, whatever the
/// target folder is.
const STAGE: &str = "target/stage";

/// What is published, below the target folder, in which `dist` is Cargo's own.
const OUT: &str = "packages";

/// The programs, and the package and the folder of each.
const PROGRAMS: [(&str, &str, &str); 2] =
    [("parachron", "parachron", "crates/cli"), ("parachrond", "parachron-daemon", "crates/daemon")];

/// Processors, by Debian's name, with Rust's target.
const TARGETS: [(&str, &str); 2] =
    [("amd64", "x86_64-unknown-linux-musl"), ("arm64", "aarch64-unknown-linux-musl")];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also for this processor; may be repeated [default: this machine's]
    #[arg(long = "arch", value_name = "ARCH", value_parser = ["amd64", "arm64"])]
    archs: Vec<String>,
    /// Package the programs that are there, and build none
    #[arg(long)]
    no_build: bool,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    match dist(project, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dist(project: &Project, args: &Args) -> io::Result<()> {
    for tool in ["deb", "generate-rpm"] {
        if !outside::is_available(project.cargo().args([tool, "--version"])) {
            return Err(io::Error::other(format!(
                "no cargo-{tool}; run `cargo install --locked cargo-{tool}`"
            )));
        }
    }
    let (out, stage) = (project.target_folder().join(OUT), project.path(STAGE));
    for folder in [&out, &stage] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    let epoch = run_command(project, Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    let epoch = epoch.trim();
    let is_host = |target: &str| target.starts_with(std::env::consts::ARCH);
    let is_wanted = |arch: &str| args.archs.iter().any(|wanted| wanted == arch);
    let mut targets: Vec<&str> = TARGETS
        .into_iter()
        .filter(|(arch, target)| is_host(target) || is_wanted(arch))
        .map(|(_, target)| target)
        .collect();
    // This machine's program prints the completions of all.
    targets.sort_by_key(|target| !is_host(target));
    for target in targets {
        if !args.no_build {
            build(project, target)?;
        }
        let programs = project.target_folder().join(target).join("dist");
        if is_host(target) {
            stage_files(project, &programs, &stage, epoch)?;
        }
        write_contents(project, target, &stage)?;
        package(project, target, &programs, &out, epoch)?;
    }
    let mut names = files(&out)?;
    names.sort();
    let sums = run_command(project, Command::new("sha256sum").current_dir(&out).args(names))?;
    fs::write(out.join("SHA256SUMS"), &sums)?;
    println!("{}:\n{}", out.display(), sums.trim_end());
    Ok(())
}

/// Builds the programs: static, and without this machine's folders. Addresses to relocate take a
/// bit each, which musl reads since 1.2.4 (Rust 1.93), and functions of the same code are one.
fn build(project: &Project, target: &str) -> io::Result<()> {
    let (folder, home) = (project.target_folder(), project.cargo_home());
    let sysroot = run_command(project, Command::new("rustc").args(["--print", "sysroot"]))?;
    // Of two that fit, the later counts: the target folder may be below the root.
    let folders = [
        (Path::new(sysroot.trim()), "rust"),
        (&home, "cargo"),
        (project.root(), "parachron"),
        (&folder, "parachron/target"),
    ];
    let remap =
        folders.map(|(path, name)| format!("--remap-path-prefix={}=/{name}", path.display()));
    let link = ["-Clink-arg=--pack-dyn-relocs=relr", "-Clink-arg=--icf=all"].map(str::to_owned);
    let mut cargo = project.cargo();
    cargo.args(["build", "--locked", "--profile", "dist", "--target", target]);
    cargo.args(PROGRAMS.iter().flat_map(|(_, package, _)| ["--package", package]));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", [&remap[..], &link].concat().join("\x1f"));
    // Rust brings its own linker for musl. C, which calls no library, is for the same processor.
    let upper = target.to_uppercase().replace('-', "_");
    cargo.env(format!("CARGO_TARGET_{upper}_LINKER"), "rust-lld").env("CARGO_INCREMENTAL", "0");
    let compiler = format!("{}-gcc", target.replace("unknown-linux-musl", "linux-gnu"));
    cargo.env(format!("CC_{}", target.replace('-', "_")), compiler);
    if outside::pass_through(&mut cargo) == ExitCode::SUCCESS {
        return Ok(());
    }
    Err(io::Error::other(format!("not built; run `rustup target add {target}`")))
}

/// Manual pages, completions and Debian's changelog. A program that its musl cannot relocate ends
/// here, before it is packaged.
fn stage_files(project: &Project, programs: &Path, stage: &Path, epoch: &str) -> io::Result<()> {
    let parachron = || Command::new(programs.join("parachron"));
    run_command(project, Command::new(programs.join("parachrond")).arg("--version"))?;
    let pages = stage.join("man");
    let mut man = project.cargo();
    man.args(["run", "--locked", "--package", "parachron", "--example", "man", "--"]);
    run_command(project, man.arg(&pages))?;
    run_command(project, Command::new("gzip").args(["-9", "-n", "-r"]).arg(&pages))?;
    for shell in ["bash", "zsh", "fish"] {
        let text = run_command(project, parachron().args(["completions", shell]))?;
        fs::write(stage.join(format!("completion.{shell}")), text)?;
    }
    let date = format!("@{epoch}");
    let date = run_command(project, Command::new("date").args(["--utc", "-R", "-d", &date]))?;
    let changes = format!(
        "parachron ({}) unstable; urgency=medium\n\n  * What changed: CHANGELOG.md of the \
         project.\n\n -- The Parachron authors <parachron@localhost.invalid>  {date}",
        env!("CARGO_PKG_VERSION")
    );
    fs::write(stage.join("changelog"), changes)
}

/// Both packages by their manifests, and the tarball.
fn package(
    project: &Project,
    target: &str,
    programs: &Path,
    out: &Path,
    epoch: &str,
) -> io::Result<()> {
    for (_, package, folder) in PROGRAMS {
        let common = ["--profile", "dist", "--target", target, "--output"];
        let mut deb = project.cargo();
        deb.args(["deb", "--no-build", "--no-strip", "--package", package]).args(common).arg(out);
        run_command(project, deb.env("SOURCE_DATE_EPOCH", epoch))?;
        let mut rpm = project.cargo();
        rpm.args(["generate-rpm", "--source-date", epoch, "--payload-compress", "xz"]);
        run_command(project, rpm.args(["--package", folder]).args(common).arg(out))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    for (program, ..) in PROGRAMS {
        fs::copy(programs.join(program), out.join(format!("{program}-{version}-{target}")))?;
    }
    let name = format!("parachron-{version}-{target}");
    for file in ["sbom.cdx.json", "licences.txt"] {
        fs::copy(project.path(STAGE).join(file), out.join(format!("{name}.{file}")))?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=a+rX,u+w,go-w"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("-czf").arg(out.join(format!("{name}.tar.gz")));
    tar.arg("-C").arg(programs).args(PROGRAMS.map(|(program, ..)| program));
    tar.arg("-C").arg(project.path(STAGE)).args(["man", "licences.txt"]);
    run_command(project, tar.arg("-C").arg(project.root()).arg("packaging")).map(drop)
}

/// The names of a folder's files.
fn files(folder: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    fs::read_dir(folder)?.map(name).collect()
}

/// What a command prints; its errors, where it fails.
fn run_command(project: &Project, command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    if command.get_current_dir().is_none() {
        command.current_dir(project.root());
    }
    let named = |error| io::Error::other(format!("cannot run {program}: {error}"));
    let output = command.output().map_err(named)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("{program} failed: {}", String::from_utf8_lossy(&printed))))
}

// What is inside the programs: every crate with version and licence, as a CycloneDX list, and the
// licences' texts.

/// Writes the list and the texts of both programs for a processor into a folder.
fn write_contents(project: &Project, target: &str, folder: &Path) -> io::Result<()> {
    let mut cargo = project.cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&run_command(project, &mut cargo)?)?;
    let used = linked(&metadata);
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut packages: Vec<&Value> =
        packages.iter().filter(|one| used.contains(field(one, "id"))).collect();
    packages.sort_by_key(|one| (field(one, "name"), field(one, "version")));
    fs::write(folder.join("sbom.cdx.json"), sbom(&packages)?)?;
    fs::write(folder.join("licences.txt"), licences(&packages))
}

/// The packages that are linked into the programs, without what only builds or tests them.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let by_id: BTreeMap<&str, &Value> =
        nodes.iter().map(|node| (field(node, "id"), node)).collect();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_program = |one: &&Value| PROGRAMS.iter().any(|(_, root, _)| field(one, "name") == *root);
    let roots = packages.iter().filter(is_program);
    let mut waiting: Vec<&str> = roots.map(|one| field(one, "id")).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !used.insert(id) {
            continue;
        }
        let needs = by_id.get(id).and_then(|node| node["deps"].as_array());
        for need in needs.into_iter().flatten() {
            let kinds = need["dep_kinds"].as_array().map_or(&[][..], Vec::as_slice);
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(field(need, "pkg"));
            }
        }
    }
    used
}

/// CycloneDX 1.5 (ECMA-424).
fn sbom(packages: &[&Value]) -> io::Result<String> {
    let component = |one: &&Value| {
        let (name, version) = (field(one, "name"), field(one, "version"));
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": licence(one) }],
        })
    };
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "name": "parachron", "version": env!("CARGO_PKG_VERSION"),
        } },
        "components": packages.iter().map(component).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Each crate's licence, and the texts, each once.
fn licences(packages: &[&Value]) -> String {
    let mut text = String::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for one in packages {
        let name = format!("{} {}", field(one, "name"), field(one, "version"));
        text += &format!("{name}: {}\n", licence(one));
        let folder = Path::new(field(one, "manifest_path")).parent().unwrap_or(Path::new(""));
        for licence in texts(folder) {
            seen.entry(licence).or_default().push_str(&format!("{name}; "));
        }
    }
    for (licence, names) in seen {
        let names = names.trim_end_matches("; ");
        text += &format!("\n{}\nOf {names}:\n\n{}\n", "=".repeat(72), licence.trim_end());
    }
    text
}

/// The texts of licences in a crate's folder.
fn texts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_licence = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICEN", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start))
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| is_licence(path));
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Its expression; older crates separate by a slash.
fn licence(package: &Value) -> String {
    field(package, "license").replace('/', " OR ").replace("  ", " ")
}

fn field<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_builds_is_not() {
        let dep = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                { "id": "p", "name": "parachron" },
                { "id": "d", "name": "parachron-daemon" },
                { "id": "x", "name": "xtask" },
            ],
            "resolve": { "nodes": [
                { "id": "d", "deps": [dep("c", Value::Null)] },
                { "id": "p", "deps": [dep("a", Value::Null), dep("b", json!("build"))] },
                { "id": "a", "deps": [dep("c", Value::Null), dep("x", json!("dev"))] },
                { "id": "x", "deps": [dep("e", Value::Null)] },
            ] },
        });
        assert_eq!(linked(&metadata).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "p"]);
        assert_eq!(licence(&json!({ "license": "MIT/Apache-2.0" })), "MIT OR Apache-2.0");
    }
}
