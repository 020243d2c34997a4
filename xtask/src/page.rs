//! `cargo xtask page`: the simulator as one file for a browser, which needs no network
//! and no other file.

mod encode;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::built;
use crate::outside;
use crate::project::Project;

const TARGET: &str = "wasm32-unknown-unknown";
const SOURCES: &str = "docs/simulator";

/// The page, in the target folder.
const PAGE: &str = "simulator.html";

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it goes [default: simulator.html in the target folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also test it: in node beside the program, and in a Chromium without a window
    #[arg(long)]
    check: bool,
    /// With --check: leave pictures of it here
    #[arg(long, value_name = "FOLDER", requires = "check")]
    pictures: Option<PathBuf>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    let out = args.out.as_ref().map(|out| project.root().join(out));
    let out = out.unwrap_or_else(|| project.target_folder().join(PAGE));
    let built = build(project, &out);
    match built {
        Err(why) => {
            eprintln!("page: {why}");
            ExitCode::FAILURE
        }
        Ok(wasm) if args.check => check(project, args, &wasm, &out),
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// Builds the module and the page; where the module is.
fn build(project: &Project, out: &Path) -> Result<PathBuf, String> {
    let mut cargo = project.cargo();
    cargo.args(["build", "--quiet", "--profile", "web", "--target", TARGET]);
    if outside::pass_through(cargo.args(["--package", "parachron-simulator-web"]))
        != ExitCode::SUCCESS
    {
        return Err(format!("no module was built; try: rustup target add {TARGET}"));
    }
    let wasm = project.target_folder().join(TARGET).join("web/simulator_web.wasm");
    let module = fs::read(&wasm).map_err(|why| format!("{}: {why}", wasm.display()))?;
    let page = page(project, &module)?;
    fs::write(out, &page).map_err(|why| format!("{}: {why}", out.display()))?;
    println!("{}: {} bytes", out.display(), page.len());
    Ok(wasm)
}

/// The page with all that it needs inside.
fn page(project: &Project, module: &[u8]) -> Result<String, String> {
    let source = |name: &str| {
        let path = project.path(SOURCES).join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let style = source("page.css")?;
    let scripts = ["words.js", "plot.js", "page.js"].map(source);
    let script = scripts.into_iter().collect::<Result<Vec<_>, _>>()?.join("\n");
    let script = format!("\"use strict\";\n{script}");
    // What the page may do: run this script, apply this style, and start the worker that
    // it carries. It loads nothing and sends nothing.
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; worker-src blob:; \
         script-src 'sha256-{}' 'wasm-unsafe-eval'; style-src 'sha256-{}'",
        encode::sha256(&script)?,
        encode::sha256(&style)?,
    );
    let worker = source("worker.js")?;
    let wasm = encode::base64(module);
    let parts = [
        ("policy", policy),
        ("style", style),
        ("worker", worker),
        ("wasm", wasm),
        ("script", script),
    ];
    let fill = |page: String, (name, text): (&str, String)| {
        page.replace(&format!("{{{{{name}}}}}"), &text)
    };
    Ok(parts.into_iter().fold(source("page.html")?, fill))
}

/// The browsers that are looked for.
pub(crate) const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

fn check(project: &Project, args: &Args, wasm: &Path, out: &Path) -> ExitCode {
    if !outside::is_available(Command::new("node").arg("--version")) {
        println!("SKIPPED: node is not installed; try: apt-get install nodejs");
        return ExitCode::SUCCESS;
    }
    let built = outside::pass_through(&mut built::build(project, &["--bin", "parachron"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let browser = BROWSERS
        .into_iter()
        .find(|name| outside::is_available(Command::new(name).arg("--version")));
    let mut node = Command::new("node");
    node.current_dir(project.root()).arg("docs/simulator/check.mjs").arg(wasm);
    node.arg(project.target_folder().join("debug/parachron")).arg(out);
    node.arg(browser.unwrap_or(""));
    outside::pass_through(node.args(&args.pictures))
}
