//! The device through which Linux shows the host's VMClock page.

use std::path::Path;

use pvclock::vmclock::{VmClockFlags, VmClockInfo};

use crate::privilege;
use facts::hardware::VmClock;
use facts::{Fact, Unknown};
use linux::reread::Reread;

/// An open device, or a file that stands in for it.
#[derive(Debug)]
pub struct VmClockDevice {
    name: String,
    file: Reread,
}

impl VmClockDevice {
    /// Where Linux has the first one.
    pub const PATH: &str = "/dev/vmclock0";

    /// Opens `path`, and reads it once: what holds no page of a layout we
    /// know is not there. Whether the page tells the time is another matter,
    /// and may change.
    pub fn open(path: &Path) -> Fact<Self> {
        let name = path.display().to_string();
        privilege::fact(&name, Reread::open(path)).and_then(|file| {
            let device = Self { name, file };
            Fact::from(device.info()).map(|_| device)
        })
    }

    /// Its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the page holds now: the driver copies it between two looks at its
    /// sequence count (`vmclock_miscdev_read`, drivers/ptp/ptp_vmclock.c).
    ///
    /// # Errors
    /// It cannot be read, or holds no page that we know.
    pub fn info(&self) -> Result<VmClockInfo, Unknown> {
        let unreadable = |error| Unknown::Unreadable { what: self.name.clone(), error };
        let mut bytes = [0; VmClockInfo::SIZE];
        match self.file.read(&mut bytes).map_err(|error| privilege::why(&self.name, &error))? {
            VmClockInfo::SIZE => {
                VmClockInfo::from_bytes(&bytes).map_err(|error| unreadable(error.to_string()))
            }
            length => Err(unreadable(format!("{length} bytes of {}", VmClockInfo::SIZE))),
        }
    }

    /// What it says now of this machine and its host, as a fact.
    pub fn fact(&self) -> Fact<VmClock> {
        Fact::from(self.info()).map(|info| VmClock {
            device: self.name.clone(),
            disruption_marker: info.disruption_marker,
            vm_generation: info
                .flags
                .contains(VmClockFlags::VM_GENERATION_PRESENT)
                .then_some(info.vm_generation),
            clock_status: info.clock_status.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::vmclock::tests;

    fn page(disruption_marker: u64, vm_generation: u64) -> [u8; VmClockInfo::SIZE] {
        let flags = VmClockFlags::VM_GENERATION_PRESENT;
        VmClockInfo { disruption_marker, flags, vm_generation, ..tests::page() }.to_bytes()
    }

    #[test]
    fn a_page_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        std::fs::write(&path, page(7, 1)).unwrap();
        let Fact::Known(device) = VmClockDevice::open(&path) else { panic!("not opened") };
        let seen = || device.fact().map(|page| (page.disruption_marker, page.vm_generation));
        assert_eq!(seen(), Fact::Known((7, Some(1))));
        std::fs::write(&path, page(8, 2)).unwrap();
        assert_eq!(seen(), Fact::Known((8, Some(2))));
        let uncounted = VmClockInfo { flags: VmClockFlags(0), ..tests::page() };
        std::fs::write(&path, uncounted.to_bytes()).unwrap();
        assert_eq!(seen(), Fact::Known((uncounted.disruption_marker, None)));
    }

    #[test]
    fn what_is_no_page_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        assert!(matches!(VmClockDevice::open(&path), Fact::Unknown(Unknown::NotThere { .. })));
        std::fs::write(&path, [0; 20]).unwrap();
        let short = VmClockDevice::open(&path).unknown().map(ToString::to_string);
        assert!(short.is_some_and(|why| why.contains("20 bytes of")));
    }
}
