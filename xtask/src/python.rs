//! Python programs that judge ours, each in an environment of its own below the target folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::outside::{self, Outcome};

/// What this machine lacks where [`probe`] fails, and how to provide it.
pub(crate) const MISSING: (&str, &str) = ("no Python with venv", "apt-get install python3-venv");

/// Succeeds where an environment can be made. Debian's Python has `venv` without what it needs.
pub(crate) fn probe() -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]);
    python
}

/// Python in the environment of a folder, with these requirements: installed at its first use
/// and after a change.
///
/// # Errors
/// Why there is none, and what to try.
pub(crate) fn in_venv(folder: &Path, requirements: &Path) -> Result<Command, (String, String)> {
    let owned = |(why, remedy): (&str, &str)| (why.to_owned(), remedy.to_owned());
    if !outside::is_available(&mut probe()) {
        return Err(owned(MISSING));
    }
    let unreadable = |why| (format!("{}: {why}", requirements.display()), "git status".to_owned());
    let wanted = fs::read(requirements).map_err(unreadable)?;
    let environment = folder.join("venv");
    let (python, installed) = (environment.join("bin/python"), environment.join("installed"));
    if !fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        let mut create = Command::new("python3");
        create.args(["-m", "venv"]).arg(&environment);
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        pip.arg(requirements);
        for mut step in [create, pip] {
            if let Outcome::Failed(text) = Outcome::of(&mut step) {
                let last = text.trim_end().lines().next_back().unwrap_or_default();
                let why = format!("{} could not be installed ({last})", requirements.display());
                return Err((why, "a machine that reaches PyPI".to_owned()));
            }
        }
        // A mark that cannot be written costs the next run an installation.
        let _ = fs::write(installed, wanted);
    }
    Ok(Command::new(python))
}
