//! The options of `cargo xtask machines`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;

use crate::sources;
use crate::whole::Kind;

/// Real kernels and hypervisors as the judge: a row of validation/machines/machines.toml each.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask machines", bin_name = "cargo xtask machines")]
pub(crate) struct Args {
    /// List the rows, and exit
    #[arg(long)]
    pub(crate) list: bool,
    /// Run only this row; may be repeated
    #[arg(long, value_name = "ROW")]
    pub(crate) only: Vec<String>,
    /// Run the rows marked as quick
    #[arg(long, conflicts_with = "only")]
    pub(crate) quick: bool,
    /// Run the long checks instead: ten calm minutes of `watch`, and for some rows
    /// a hundred runs of `drift`, or a stop of ten minutes under `parachrond`
    #[arg(long, conflicts_with_all = ["quick", "capture"])]
    pub(crate) long: bool,
    /// Run this many rows at a time [default: 3 for 2 CPUs; 8 with --long]
    #[arg(long, value_name = "ROWS")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Time limit of a machine's boot; raise it on a slow system
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    pub(crate) boot: u32,
    /// Restore the machine of row `gate-7.3` this many times; a thousand take two hours
    #[arg(long, value_name = "TIMES", default_value_t = 20)]
    pub(crate) restores: u32,
    /// Keep the latest result of each row in validation/results, a file each
    #[arg(long)]
    pub(crate) record: bool,
    /// Keep each row's capture in testdata/machines
    #[arg(long)]
    pub(crate) capture: bool,
    /// Replay the transcripts of this folder, and write
    /// validation/results/timekeeper.json; run no machine
    #[arg(long, value_name = "FOLDER")]
    pub(crate) timekeeper: Option<PathBuf>,
    /// Write validation/results/providers from the reports in this folder and those
    /// beside it; run no machine
    #[arg(long, value_name = "FOLDER", conflicts_with = "timekeeper")]
    pub(crate) linux_on_provider: Option<PathBuf>,
    /// Keep downloaded packages here [default: $XDG_CACHE_HOME/parachron/machines]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache: Option<PathBuf>,
    /// Take the addresses of Debian's archive from the sources.list and sources.list.d of
    /// this folder
    #[arg(long, value_name = "FOLDER", default_value = sources::APT)]
    pub(crate) apt: PathBuf,
    /// Take the static programs from here, and build none
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
    /// Take the static programs for arm64 from here, and build none
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs_arm64: Option<PathBuf>,
    /// Take the packages of Parachron from here [default: target/packages]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) packages: Option<PathBuf>,
    /// Print the output of each command and the result of each check
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Fail with exit code 2 if anything was skipped
    #[arg(long)]
    pub(crate) require: bool,
}

impl Args {
    /// Rows at a time.
    pub(crate) fn at_once(&self, otherwise: usize) -> usize {
        self.jobs.map_or(otherwise, NonZeroUsize::get)
    }

    /// What it runs as a whole, if it does.
    pub(crate) fn whole(&self) -> Option<Kind> {
        match (self.quick, self.only.is_empty()) {
            (true, _) => Some(Kind::Quick),
            (false, true) => Some(Kind::All),
            (false, false) => None,
        }
    }

    /// The cache of packages.
    pub(crate) fn cache(&self) -> PathBuf {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
        self.cache.clone().unwrap_or_else(|| {
            let home = || folder("HOME").unwrap_or_default().join(".cache");
            folder("XDG_CACHE_HOME").unwrap_or_else(home).join("parachron/machines")
        })
    }
}
