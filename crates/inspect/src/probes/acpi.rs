//! The vendor's name in ACPI's tables, and devices that tell of a restore.

use super::kernel_log::KernelLog;
use crate::tree::Files;
use facts::{Fact, Unknown};

const FACP: &str = "/sys/firmware/acpi/tables/FACP";

/// The bytes of a table's header that hold the vendor's name (ACPI
/// specification, System Description Table Header).
const OEM_ID: std::ops::Range<usize> = 10..16;

/// The name, from the table (as root) or from the log.
pub(crate) fn oem(files: &Files, log: &KernelLog) -> Fact<String> {
    match files.bytes(FACP, 1 << 16) {
        Fact::Known(table) => match table.get(OEM_ID) {
            Some(name) => {
                Fact::Known(String::from_utf8_lossy(name).trim_matches([' ', '\0']).to_owned())
            }
            None => {
                let found = format!("{} bytes", table.len());
                Fact::Unknown(Unknown::malformed(FACP, "a table's header", &found))
            }
        },
        Fact::Unknown(why) => match log.text(files).value().and_then(|log| in_log(log)) {
            Some(name) => Fact::Known(name),
            None => Fact::Unknown(why),
        },
    }
}

/// The devices among ACPI's that tell of a restore or a move, one a line.
pub(crate) fn generation_devices(files: &Files) -> Fact<String> {
    files.names("/sys/bus/acpi/devices").map(|all| facts::system::generation_devices(&all))
}

/// `ACPI: RSDP 0x00000000000E0000 000024 (v02 FIRECK)`
pub(crate) fn in_log(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("ACPI: RSDP "))?;
    let (_, inside) = line.rsplit_once('(')?;
    let mut words = inside.trim_end().trim_end_matches(')').split_whitespace();
    words.next()?.strip_prefix('v')?;
    words.next().map(str::to_owned)
}
