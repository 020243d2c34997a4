//! Hyper-V's hypercall page, without a hypercall: Linux takes no Hyper-V without it
//! (arch/x86/hyperv/hv_init.c, hyperv_init), and makes none where only the clock is
//! offered. (TLFS, "Establishing the Hypercall Interface".)

use crate::memory::GuestRam;

/// HV_X64_MSR_GUEST_OS_ID, the provider's: without it there is no page.
const GUEST_OS_ID: u32 = 0x4000_0000;
/// HV_X64_MSR_HYPERCALL: bit 0 enables the page, whose number is in the bits above 11.
const HYPERCALL: u32 = 0x4000_0001;
/// HV_X64_MSR_VP_ASSIST_PAGE: Linux writes it on each vCPU and asks nothing of the
/// page where nothing is recommended to it.
const VP_ASSIST: u32 = 0x4000_0073;
const ENABLED: u64 = 1;
const PAGE: u64 = !0xfff;
/// `mov eax, 2; xor edx, edx; ret`: HV_STATUS_INVALID_HYPERCALL_CODE.
const CODE: [u32; 2] =
    [u32::from_le_bytes([0xb8, 2, 0, 0]), u32::from_le_bytes([0, 0x31, 0xd2, 0xc3])];

/// The registers.
#[derive(Debug, Default, Clone)]
pub(crate) struct HypercallPage {
    hypercall: u64,
    assist: u64,
    /// Whether the guest has told its id.
    is_known: bool,
}

impl HypercallPage {
    /// The value, if the register is one of these.
    pub(crate) fn read(&self, msr: u32) -> Option<u64> {
        match msr {
            HYPERCALL => Some(self.hypercall),
            VP_ASSIST => Some(self.assist),
            _ => None,
        }
    }

    /// Whether the guest may write this value, if the register is one of these.
    pub(crate) fn write(&mut self, msr: u32, value: u64, ram: &GuestRam) -> Option<bool> {
        match msr {
            GUEST_OS_ID => {
                self.is_known = value != 0;
                if !self.is_known {
                    self.hypercall &= !ENABLED;
                }
                return None;
            }
            // The rest of the register is kept (TLFS, "Establishing the Hypercall Interface").
            HYPERCALL if !self.is_known => self.hypercall = value & !ENABLED,
            HYPERCALL => {
                if value & ENABLED != 0 && ram.set_words(value & PAGE, &CODE).is_none() {
                    return Some(false);
                }
                self.hypercall = value;
            }
            VP_ASSIST => self.assist = value,
            _ => return None,
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_code_where_the_guest_wants_it_and_nowhere_else() {
        let ram = GuestRam::new(guest::layout::MEMORY_MIN).unwrap();
        let mut page = HypercallPage::default();
        assert_eq!(page.write(HYPERCALL, 0x3001, &ram), Some(true));
        assert_eq!((page.read(HYPERCALL), ram.copy().unwrap()[0x3000]), (Some(0x3000), 0));
        assert_eq!(page.write(GUEST_OS_ID, 1, &ram), None, "the provider's too");
        assert_eq!(page.write(HYPERCALL, 0x3000, &ram), Some(true), "not enabled");
        assert_eq!(ram.copy().unwrap()[0x3000], 0);
        assert_eq!(page.write(HYPERCALL, 0x3001, &ram), Some(true));
        assert_eq!(ram.copy().unwrap()[0x3000..0x3008], CODE.map(u32::to_le_bytes).concat());
        assert_eq!(page.write(HYPERCALL, ram.size() | 1, &ram), Some(false), "no memory");
        let shared = guest::layout::SHARED & PAGE;
        assert_eq!(page.write(HYPERCALL, shared | 1, &ram), Some(false), "the shared area");
        assert_eq!(page.read(HYPERCALL), Some(0x3001));
        assert_eq!(page.write(GUEST_OS_ID, 0, &ram), None);
        assert_eq!(page.read(HYPERCALL), Some(0x3000), "off with the id");
        assert_eq!((page.write(0x4000_0020, 1, &ram), page.read(0x10)), (None, None));
    }
}
