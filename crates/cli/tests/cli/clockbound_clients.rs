//! A program of the published clients of ClockBound, one of each segment
//! layout: built outside the workspace, as they and what they depend on are to
//! be nobody's dependency here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::program::project;

const MANIFEST: &str = r#"
[package]
name = "clients"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
one = { package = "clock-bound-client", version = "=1.0.0" }
two = { package = "clock-bound-client", version = "=2.0.3" }
three = { package = "clock-bound", version = "=3.0.0-rc.0", default-features = false }
"#;

/// Prints a line for each client: its layout, the status, and the time's bounds
/// as seconds and nanoseconds.
const MAIN: &str = r#"
fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let (page, [shm, shm0, shm1]) =
        (format!("{folder}/vmclock0"), ["shm", "shm0", "shm1"].map(|file| format!("{folder}/{file}")));
    macro_rules! print {
        ($layout:literal, $client:expr) => {{
            let now = $client.expect("a segment").now().expect("a time");
            let (from, to) = (now.earliest, now.latest);
            let bounds = [from.tv_sec(), from.tv_nsec(), to.tv_sec(), to.tv_nsec()];
            println!("{} {:?} {bounds:?}", $layout, now.clock_status);
        }};
    }
    print!(1, one::ClockBoundClient::new_with_path(&shm));
    print!(2, two::ClockBoundClient::new_with_paths(&shm0, &page));
    print!(3, three::Client::new_with_paths(&shm1, &page));
}
"#;

/// Where the program is.
///
/// # Errors
/// Cargo does not fetch or build it: what it said last.
pub(crate) fn built() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref().map_err(Clone::clone)
}

fn build() -> Result<PathBuf, String> {
    let failed = |error| format!("no clients of ClockBound: {error}");
    // Kept, so that it is built once.
    let folder = project().join("target/tmp/clockbound-clients");
    fs::create_dir_all(folder.join("src")).map_err(|error| failed(error.to_string()))?;
    for (file, text) in [("Cargo.toml", MANIFEST), ("src/main.rs", MAIN)] {
        let path = folder.join(file);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        fs::write(path, text).map_err(|error| failed(error.to_string()))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--target-dir", "target"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().find(|line| line.contains("error")).unwrap_or("").into()));
    }
    Ok(folder.join("target/debug/clients"))
}
