//! The VMClock page, read through its device.

use pvclock::vmclock::{VmClockFlags, VmClockInfo};

use crate::fact::{Fact, Unknown};

const DEVICE: &str = "/dev/vmclock0";

/// The fields of [`crate::facts::hardware::parse_vmclock`].
pub(crate) fn page() -> Fact<String> {
    let mut bytes = [0; VmClockInfo::SIZE];
    // The driver copies between two reads of the sequence itself
    // (drivers/ptp/ptp_vmclock.c).
    let read = std::fs::File::open(DEVICE)
        .and_then(|mut device| std::io::Read::read_exact(&mut device, &mut bytes));
    if let Err(error) = read {
        return Fact::Unknown(Unknown::from_io(DEVICE, &error));
    }
    match VmClockInfo::from_bytes(&bytes) {
        Ok(info) => Fact::Known(text(&info)),
        Err(error) => {
            Fact::Unknown(Unknown::Unreadable { what: DEVICE.to_owned(), error: error.to_string() })
        }
    }
}

fn text(info: &VmClockInfo) -> String {
    let mut text = format!(
        "device {DEVICE}\ndisruption_marker {}\nclock_status {}\n",
        info.disruption_marker, info.clock_status.0
    );
    if info.flags.contains(VmClockFlags::VM_GENERATION_PRESENT) {
        text.push_str(&format!("vm_generation {}\n", info.vm_generation));
    }
    text
}
