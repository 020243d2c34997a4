//! What runs a machine: each base turns a row into a hypervisor's command
//! line, after it has made the files that this boots.

mod debian;
mod domu;
mod emulated;
mod kvm;
mod uml;
mod xen;

use std::path::{Path, PathBuf};

use crate::artifacts;
use crate::machine::Start;
use crate::moved;
use crate::outcome::Failure;
use crate::packages::{Kernel, Suite};
use crate::systems;
use crate::table::{Base, Hypervisor, Row};
pub(crate) use crate::workshop::Workshop;

impl Workshop {
    /// A suite's packages.
    pub(crate) fn suite(&self, name: &str) -> Result<Suite, Failure> {
        Ok(Suite::open(self, name)?)
    }

    /// A kernel of the table.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        let suite = self.table.kernels.get(name);
        let suite = suite
            .ok_or_else(|| format!("validation/machines/machines.toml has no kernel {name}"))?;
        let kernel = self.suite(suite)?.kernel()?;
        let found = kernel.version();
        // A name's end tells two of a version apart.
        let wanted = name.split('-').next().unwrap_or(name);
        if !moved::is_version(&found, wanted) {
            moved::report(&format!("kernel {name} of {suite}"), wanted, &found);
        }
        Ok(kernel)
    }

    /// A hypervisor of the table, and the tree that it is in.
    fn hypervisor(&self, name: &str) -> Result<(&Hypervisor, PathBuf), Failure> {
        let one = self.table.hypervisors.get(name);
        let one = one
            .ok_or_else(|| format!("validation/machines/machines.toml has no hypervisor {name}"))?;
        let tree = match &one.system {
            Some(system) => systems::tree(self, system)?,
            None => self.suite(&one.suite)?.tree(name, &one.packages)?,
        };
        Ok((one, tree))
    }

    /// busybox, static.
    pub(crate) fn busybox(&self, is_arm64: bool) -> Result<PathBuf, Failure> {
        let suite = if is_arm64 { "bookworm-arm64" } else { "bookworm" };
        Ok(self.suite(suite)?.unpacked("busybox-static")?.join("bin/busybox"))
    }

    /// The folder of the programs for a row's processor.
    pub(crate) fn programs(&self, is_arm64: bool) -> Result<PathBuf, Failure> {
        match &self.programs_arm64 {
            _ if !is_arm64 => Ok(self.programs.clone()),
            Some(folder) => Ok(folder.clone()),
            None => Ok(artifacts::programs_arm64()?),
        }
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
