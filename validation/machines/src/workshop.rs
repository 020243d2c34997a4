//! What all rows are built from; `base` builds with it.

use std::path::PathBuf;
use std::time::Duration;

use crate::table::Table;

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
