//! Which machine this is, and how busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// Which machine this is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct System {
    /// DMI product name: `Standard PC (Q35 + ICH9, 2009)`, `VirtualBox`.
    pub product: Fact<String>,
    /// DMI vendor: `QEMU`, `innotek GmbH`, `Amazon EC2`.
    pub vendor: Fact<String>,
    /// ACPI's OEM id where the kernel log shows it (`FIRECK`, `BOCHS`): it
    /// names machines that have no DMI.
    pub acpi_oem: Fact<String>,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub distribution: Fact<String>,
    /// The container this runs in, if it does: `docker`, `lxc`, `podman`.
    pub container: Fact<String>,
}

/// How busy it is, and how much was taken from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Seconds since boot.
    pub uptime_s: Fact<f64>,
    /// Load averages over 1, 5, 15 minutes.
    pub load_average: Fact<[f64; 3]>,
    /// Part of all CPU time since boot that the host gave to others, 0 to 1.
    pub steal_since_boot: Fact<f64>,
}
