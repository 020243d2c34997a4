//! The VMClock page, read again and again.

use std::path::Path;

use pvclock::vmclock::{VmClockFlags, VmClockInfo};

use super::file::Again;
use crate::fact::{Fact, Unknown};
use crate::facts::hardware::VmClock;

/// Where the kernel has it.
pub const VMCLOCK: &str = "/dev/vmclock0";

/// The page's file, open.
#[derive(Debug)]
pub struct LiveVmClock {
    file: Again,
}

impl LiveVmClock {
    /// Opens it, and reads it once: what cannot be read is not there.
    pub fn open(path: &Path) -> Fact<Self> {
        Again::open(path).and_then(|file| {
            let page = Self { file };
            page.read().map(|_| page)
        })
    }

    /// What it holds now. The driver copies between two reads of the sequence
    /// itself (drivers/ptp/ptp_vmclock.c).
    pub fn read(&self) -> Fact<VmClock> {
        let path = self.file.path().display().to_string();
        let unreadable =
            |error: String| Fact::Unknown(Unknown::Unreadable { what: path.clone(), error });
        let mut bytes = [0; VmClockInfo::SIZE];
        match self.file.read(&mut bytes) {
            Fact::Known(length) if length == bytes.len() => {}
            Fact::Known(length) => {
                return unreadable(format!("{length} bytes of {}", bytes.len()));
            }
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
        match VmClockInfo::from_bytes(&bytes) {
            Ok(info) => Fact::Known(VmClock {
                device: path,
                disruption_marker: info.disruption_marker,
                vm_generation: info
                    .flags
                    .contains(VmClockFlags::VM_GENERATION_PRESENT)
                    .then_some(info.vm_generation),
                clock_status: info.clock_status.0,
            }),
            Err(error) => unreadable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of version 1 with both counters, as in vmclock-abi.h.
    fn page(marker: u64, generation: u64) -> Vec<u8> {
        let mut bytes = vec![0; VmClockInfo::SIZE];
        bytes[0..4].copy_from_slice(b"VCLK");
        bytes[4..8].copy_from_slice(&4096u32.to_le_bytes());
        bytes[8] = 1;
        bytes[10] = 1;
        bytes[16..24].copy_from_slice(&marker.to_le_bytes());
        bytes[24..32].copy_from_slice(&(1u64 << 8).to_le_bytes());
        bytes[104..112].copy_from_slice(&generation.to_le_bytes());
        bytes
    }

    #[test]
    fn a_page_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        std::fs::write(&path, page(7, 1)).unwrap();
        let Fact::Known(live) = LiveVmClock::open(&path) else { panic!("not opened") };
        let seen = |live: &LiveVmClock| {
            live.read().map(|page| (page.disruption_marker, page.vm_generation))
        };
        assert_eq!(seen(&live), Fact::Known((7, Some(1))));
        std::fs::write(&path, page(8, 2)).unwrap();
        assert_eq!(seen(&live), Fact::Known((8, Some(2))));
    }

    #[test]
    fn what_is_no_page_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmclock");
        assert!(matches!(LiveVmClock::open(&path), Fact::Unknown(Unknown::NotThere { .. })));
        std::fs::write(&path, [0; 20]).unwrap();
        let short = LiveVmClock::open(&path).unknown().map(ToString::to_string);
        assert!(short.is_some_and(|why| why.contains("20 bytes of")));
    }
}
