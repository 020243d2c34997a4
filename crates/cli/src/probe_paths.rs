//! Options for the files that the sampler reads.

use std::path::PathBuf;

use inspect::sampler::ProbePaths;

/// Files that the sampler reads.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Files to read")]
pub(crate) struct ProbePathArgs {
    /// The VMClock page
    #[arg(long, value_name = "FILE", default_value = ProbePaths::VMCLOCK)]
    pub(crate) vmclock: PathBuf,

    /// The kernel's log
    #[arg(long, value_name = "FILE", default_value = ProbePaths::KERNEL_LOG)]
    kernel_log: PathBuf,
}

impl ProbePathArgs {
    pub(crate) fn paths(&self) -> ProbePaths {
        let mut paths = ProbePaths::default();
        paths.vmclock.clone_from(&self.vmclock);
        paths.kernel_log.clone_from(&self.kernel_log);
        paths
    }
}
