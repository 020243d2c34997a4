//! `parachron lab guest-image`: the guest as a file.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::CliError;
use crate::output;

/// Boots wherever PVH is supported.
const AFTER: &str = "\
The file is an ELF image with a PVH note, which QEMU, Firecracker and \
cloud-hypervisor boot. The guest reports the clocks it finds, and the cost of \
reading each, on the first serial port:

  qemu-system-x86_64 -accel tcg -m 64 -nographic -no-reboot -kernel FILE";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let path = &args.file;
    if !args.force && path.symlink_metadata().is_ok() {
        return Err(CliError::Failed {
            cause: format!("{} already exists", path.display()),
            remedy: "choose another name, or overwrite it with --force".into(),
        });
    }
    output::file(path, vmm::GUEST)?;
    let size = vmm::GUEST.len();
    output::text(&format!("{size} bytes written to {}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
