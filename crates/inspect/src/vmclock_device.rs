//! The host's VMClock page as facts.

use std::path::Path;

use pvclock::vmclock::VmClockFlags;

use facts::Fact;
use facts::hardware::VmClock;
use linux::vmclock::VmClockDevice;

/// The device at `path`, where it holds a page that we know.
pub fn open(path: &Path) -> Fact<VmClockDevice> {
    let why = |error| crate::unknown_of(&path.display().to_string(), &error);
    VmClockDevice::open(path).map_err(why).into()
}

/// What the page states now about this machine and its host.
pub fn fact(device: &VmClockDevice) -> Fact<VmClock> {
    let path = device.path().display().to_string();
    match device.read() {
        Err(error) => Fact::Unknown(crate::unknown_of(&path, &error)),
        Ok(info) => Fact::Known(VmClock {
            device: path,
            disruption_marker: info.disruption_marker,
            vm_generation: info
                .flags
                .contains(VmClockFlags::VM_GENERATION_PRESENT)
                .then_some(info.vm_generation),
            clock_status: info.clock_status.0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use facts::Unknown;
    use pvclock::Nanos;
    use pvclock::vmclock::{CounterId, TimeType, VmClockInfo, VmClockStatus};

    use super::*;

    fn page(
        disruption_marker: u64,
        vm_generation: u64,
        flags: VmClockFlags,
    ) -> [u8; VmClockInfo::SIZE] {
        let info = VmClockInfo {
            size: 4096,
            counter_id: CounterId::NATIVE,
            time_type: TimeType::UTC,
            seq_count: 8,
            disruption_marker,
            flags,
            clock_status: VmClockStatus::SYNCHRONISED,
            tai_offset_s: -37,
            period_shift: 20,
            counter_value: 1_000_000,
            period: 1 << 54,
            period_max_error: 1 << 34,
            time_sec: 1_795_000_000,
            time_max_error: Nanos(250),
            vm_generation,
            ..VmClockInfo::ZERO
        };
        info.to_bytes()
    }

    #[test]
    fn a_page_is_read_again_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        let counted = VmClockFlags::VM_GENERATION_PRESENT;
        std::fs::write(&path, page(7, 1, counted)).unwrap();
        let Fact::Known(device) = open(&path) else { panic!("not opened") };
        let sampled = || fact(&device).map(|page| (page.disruption_marker, page.vm_generation));
        assert_eq!(sampled(), Fact::Known((7, Some(1))));
        std::fs::write(&path, page(8, 2, counted)).unwrap();
        assert_eq!(sampled(), Fact::Known((8, Some(2))));
        std::fs::write(&path, page(3, 1, VmClockFlags(0))).unwrap();
        assert_eq!(sampled(), Fact::Known((3, None)));
    }

    #[test]
    fn a_file_without_a_page_gives_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        assert!(matches!(open(&path), Fact::Unknown(Unknown::NotThere { .. })));
        std::fs::write(&path, [0; 20]).unwrap();
        let short = open(&path).unknown().map(ToString::to_string);
        assert!(short.is_some_and(|why| why.contains("20 bytes of")));
    }
}
