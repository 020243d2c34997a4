//! The VMClock page, read through its device.

use std::path::Path;

use crate::vmclock_device::VmClockDevice;
use facts::Fact;
use facts::hardware::VmClock;

/// The fields of [`facts::hardware::parse_vmclock`].
pub(crate) fn page() -> Fact<String> {
    VmClockDevice::open(Path::new(VmClockDevice::PATH))
        .and_then(|device| device.fact())
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
