//! The options of `cargo xtask machines`.

use clap::Parser;

/// Machines under QEMU: what runs in them and what is checked there.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask machines", bin_name = "cargo xtask machines")]
pub(crate) struct Args {
    /// Seconds after which a guest is ended
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    pub(crate) limit: u32,
    /// Write the result to docs/validation/nested.md
    #[arg(long, conflicts_with = "only")]
    pub(crate) record: bool,
    /// Run one part only
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<Part>,
    /// Print the output of each command and the result of each check
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Fail with exit code 2 if anything was skipped
    #[arg(long)]
    pub(crate) require: bool,
}

/// The parts, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// A stock kernel with KVM
    Kernel,
    /// The lab's own guest image
    Image,
    /// A stock kernel that is paused, saved and restored
    Disruptions,
}
