//! The VMClock page, read through its device.

use std::path::Path;

use crate::vmclock_device;
use facts::Fact;
use facts::hardware::VmClock;
use linux::vmclock::VmClockDevice;

/// The fields of [`facts::hardware::parse_vmclock`].
pub(crate) fn page() -> Fact<String> {
    vmclock_device::open(Path::new(VmClockDevice::PATH))
        .and_then(|device| vmclock_device::fact(&device))
        .map(|page| text(&page))
}

fn text(page: &VmClock) -> String {
    let VmClock { device, disruption_marker, vm_generation, clock_status } = page;
    let mut text = format!(
        "device {device}\ndisruption_marker {disruption_marker}\nclock_status {clock_status}\n"
    );
    if let Some(generation) = vm_generation {
        text.push_str(&format!("vm_generation {generation}\n"));
    }
    text
}
