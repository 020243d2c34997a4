//! `cargo xtask page`: the pages for browsers, each one file that needs no network and no other
//! file; with `--check` their tests, and those of the pages that the program writes and serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::outside;
use crate::project::Project;

const TARGET: &str = "wasm32-unknown-unknown";

/// The page, its sources, page.html, page.css, page.js and worker.js, and the module that it runs.
const PAGE: &str = "log.html";
const FOLDER: &str = "crates/doctor/web/page";
const PACKAGE: &str = "parachron-doctor-web";
const MODULE: &str = "doctor_web.wasm";
const MOST_BYTES: u64 = 2_000_000;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where they go [default: the target folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Also test them: in node beside the program, and in a Chromium without a window
    #[arg(long)]
    check: bool,
    /// With --check: leave pictures of them here
    #[arg(long, value_name = "FOLDER", requires = "check")]
    pictures: Option<PathBuf>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    let out = args.out.as_ref().map(|out| project.root().join(out));
    let out = out.unwrap_or_else(|| project.target_folder());
    match build(project, &out) {
        Err(why) => {
            eprintln!("page: {why}");
            ExitCode::FAILURE
        }
        Ok(()) if args.check => check(project, args, &out),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Builds the modules, and the pages into a folder.
fn build(project: &Project, out: &Path) -> Result<(), String> {
    let mut cargo = project.cargo();
    cargo.args(["build", "--quiet", "--profile", "web", "--target", TARGET, "--package", PACKAGE]);
    if outside::pass_through(&mut cargo) != ExitCode::SUCCESS {
        return Err(format!("no module was built; try: rustup target add {TARGET}"));
    }
    fs::create_dir_all(out).map_err(|why| format!("{}: {why}", out.display()))?;
    let wasm = module(project);
    let module = fs::read(&wasm).map_err(|why| format!("{}: {why}", wasm.display()))?;
    let (text, out) = (page(project, &module)?, out.join(PAGE));
    fs::write(&out, &text).map_err(|why| format!("{}: {why}", out.display()))?;
    println!("{}: {} bytes", out.display(), text.len());
    Ok(())
}

fn module(project: &Project) -> PathBuf {
    project.target_folder().join(TARGET).join("web").join(MODULE)
}

/// The page with all that it needs inside.
fn page(project: &Project, module: &[u8]) -> Result<String, String> {
    let source = |name: &str| {
        let path = project.path(FOLDER).join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let (style, script) = (source("page.css")?, source("page.js")?);
    let script = format!("\"use strict\";\n{script}");
    // What the page may do: run this script, apply this style, and start the worker that
    // it carries. It loads nothing and sends nothing.
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; worker-src blob:; \
         script-src 'sha256-{}' 'wasm-unsafe-eval'; style-src 'sha256-{}'",
        BASE64_STANDARD.encode(Sha256::digest(&script)),
        BASE64_STANDARD.encode(Sha256::digest(&style)),
    );
    let parts = [
        ("policy", policy),
        ("style", style),
        ("worker", source("worker.js")?),
        ("wasm", BASE64_STANDARD.encode(module)),
        ("script", script),
    ];
    let fill = |page: String, (name, text): (&str, String)| {
        page.replace(&format!("{{{{{name}}}}}"), &text)
    };
    Ok(parts.into_iter().fold(source("page.html")?, fill))
}

/// The browsers that are looked for.
const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

/// What judges accessibility, by npm.
const AXE: &str = "axe-core@4.11.0";

fn check(project: &Project, args: &Args, out: &Path) -> ExitCode {
    if !outside::is_available(Command::new("node").arg("--version")) {
        return outside::skip("page", "node is not installed", "apt-get install nodejs");
    }
    let built = outside::pass_through(&mut project.build(&["--bin", "parachron"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut fleet_map = project.cargo();
    fleet_map.args(["build", "--quiet", "--manifest-path", "extras/fleet-map/Cargo.toml"]);
    let built = outside::pass_through(fleet_map.arg("--target-dir").arg(project.target_folder()));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let scratch = project.target_folder().join("pages");
    if let Err(why) = fs::create_dir_all(&scratch) {
        eprintln!("page: {}: {why}", scratch.display());
        return ExitCode::FAILURE;
    }
    let browser = BROWSERS
        .into_iter()
        .find(|name| outside::is_available(Command::new(name).arg("--version")));
    let settings = json!({
        "program": project.target_folder().join("debug/parachron"),
        "fleet_map": project.target_folder().join("debug/fleet-map"),
        "pages": { "log": {
            "module": module(project),
            "page": out.join(PAGE),
            "most_bytes": MOST_BYTES,
        } },
        "browser": browser,
        "axe": browser.and_then(|_| axe(&scratch)),
        "pictures": args.pictures,
        "scratch": scratch,
    });
    let mut node = Command::new("node");
    node.current_dir(project.root()).arg("xtask/pages/check.mjs").arg(settings.to_string());
    outside::pass_through(&mut node)
}

/// The script of axe-core, fetched where this version is not there yet.
fn axe(scratch: &Path) -> Option<PathBuf> {
    let folder = scratch.join(AXE);
    let script = folder.join("node_modules/axe-core/axe.min.js");
    if !script.is_file() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        outside::is_available(npm.arg(folder).arg(AXE));
    }
    script.is_file().then_some(script)
}
