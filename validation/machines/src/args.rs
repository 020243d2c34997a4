//! The options of `cargo xtask machines`.

use std::path::PathBuf;

use clap::Parser;

/// Real kernels and hypervisors as the judge: a row of validation/machines/machines.toml each,
/// one after another.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask machines", bin_name = "cargo xtask machines")]
pub(crate) struct Args {
    /// List the rows, and exit
    #[arg(long)]
    pub(crate) list: bool,
    /// Run only this row; may be repeated
    #[arg(long, value_name = "ROW")]
    pub(crate) only: Vec<String>,
    /// Run the few rows that do not depend on timing, and judge nothing else in them
    #[arg(long, conflicts_with = "only")]
    pub(crate) quick: bool,
    /// Leave out the rows that have passed at this commit
    #[arg(long)]
    pub(crate) resume: bool,
    /// Time limit of a machine's boot; raise it on a slow system
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    pub(crate) boot: u32,
    /// Restore the machine of row `gate-7.3` this many times; a thousand take two hours
    #[arg(long, value_name = "TIMES", default_value_t = 20)]
    pub(crate) restores: u32,
    /// Keep each row's capture in testdata/machines
    #[arg(long)]
    pub(crate) capture: bool,
    /// Keep trees of packages here [default: $XDG_CACHE_HOME/parachron/machines]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache: Option<PathBuf>,
    /// Take the static programs from here, and build none
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
    /// Print the output of each command and the result of each check
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Fail with exit code 2 if anything was skipped
    #[arg(long)]
    pub(crate) require: bool,
}

impl Args {
    /// The cache of packages.
    pub(crate) fn cache(&self) -> PathBuf {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
        self.cache.clone().unwrap_or_else(|| {
            let home = || folder("HOME").unwrap_or_default().join(".cache");
            folder("XDG_CACHE_HOME").unwrap_or_else(home).join("parachron/machines")
        })
    }
}
