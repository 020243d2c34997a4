//! What runs a machine: each base turns a row into a hypervisor's command
//! line, after it has made the files that this boots.

mod debian;
mod domu;
mod emulated;
mod kvm;
mod uml;
mod xen;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::artifacts;
use crate::machine::Start;
use crate::outcome::Failure;
use crate::table::{Base, Hypervisor, Row, Table};

impl Workshop {
    /// A hypervisor of the table, and the tree that it is in.
    fn hypervisor(&self, name: &str) -> Result<(&Hypervisor, PathBuf), Failure> {
        let one = self.table.hypervisors.get(name);
        let one = one
            .ok_or_else(|| format!("validation/machines/machines.toml has no hypervisor {name}"))?;
        let tree = match &one.system {
            Some(system) => self.system(system)?,
            None => {
                let packages: Vec<&str> = one.packages.iter().map(String::as_str).collect();
                self.unpacked(&one.suite, name, &packages)?
            }
        };
        Ok((one, tree))
    }

    /// busybox, static.
    pub(crate) fn busybox(&self, is_arm64: bool) -> Result<PathBuf, Failure> {
        let (suite, name) =
            if is_arm64 { ("bookworm-arm64", "busybox-arm64") } else { ("bookworm", "busybox") };
        Ok(self.unpacked(suite, name, &["busybox-static"])?.join("bin/busybox"))
    }

    /// The folder of the programs for a row's processor.
    pub(crate) fn programs(&self, is_arm64: bool) -> Result<PathBuf, Failure> {
        if is_arm64 { Ok(artifacts::programs_arm64()?) } else { Ok(self.programs.clone()) }
    }
}

/// Makes a row's files in a folder, and says how it is started.
pub(crate) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    match row.base {
        Base::Emulated => emulated::prepare(workshop, row, folder),
        Base::Debian => debian::prepare(workshop, row, folder),
        Base::Xen => xen::prepare(workshop, row, folder),
        Base::XenGuest => domu::prepare(workshop, row, folder),
        Base::Kvm => kvm::prepare(workshop, row, folder),
        Base::Uml => uml::prepare(workshop, row, folder),
    }
}

/// What all rows are built from.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) table: Table,
    /// The cache of packages.
    pub(crate) cache: PathBuf,
    /// The folder of this workspace's static programs: `parachron`,
    /// `guest-clock` and `ntp-server` (`validation/machines/src/bin`).
    pub(crate) programs: PathBuf,
    /// The folder of our packages, which `cargo xtask dist` makes.
    pub(crate) packages: PathBuf,
    /// How long a machine may take to accept its first command.
    pub(crate) boot: Duration,
    /// How often deed `gate` restores its machine.
    pub(crate) restores: u32,
    /// Only what does not depend on timing is judged.
    pub(crate) quick: bool,
}
