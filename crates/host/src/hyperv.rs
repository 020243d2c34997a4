//! The registers of a VM with Hyper-V's clock, and the content of its page.

use pvclock::hyperv::{ReferenceInfo, ReferenceScale};
use pvclock::{Hertz, Nanos};
use serde::{Deserialize, Serialize};

use crate::msr::{
    HV_REENLIGHTENMENT_CONTROL, HV_TSC_EMULATION_CONTROL, HV_TSC_EMULATION_STATUS,
    HV_TSC_INVARIANT_CONTROL, PageMsr,
};
use crate::{ClockAddress, MsrError, VcpuId};

pub(crate) const NANOS_PER_UNIT: u64 = 100;
const PAGE_ALIGNMENT: u64 = 4096;
/// Bits 8 to 15 and 17 to 31 of the re-enlightenment control.
const REENLIGHTENMENT_RESERVED: u64 = 0xfffe_ff00;
const REENLIGHTENMENT_ENABLED: u64 = 1 << 16;

/// The VM's registers and the content of its page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HyperV {
    pub(crate) guest_os_id: u64,
    pub(crate) reference: PageMsr,
    /// Of the page's last update.
    pub(crate) sequence: u32,
    /// The content of the page, while it is valid.
    #[serde(skip)]
    pub(crate) snapshot: Option<ReferenceSnapshot>,
    pub(crate) reenlightenment: u64,
    pub(crate) emulation_control: u64,
    /// 1 once the guest has the host promise an invariant TSC.
    pub(crate) invariant_control: u64,
    /// The TSC's rate here, which the guest has not acknowledged yet.
    #[serde(rename = "unacknowledged_tsc_hz", with = "crate::saved::optional_hertz")]
    pub(crate) unacknowledged: Option<Hertz>,
}

/// The content of a valid page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceSnapshot {
    pub(crate) scale: ReferenceScale,
    /// At TSC 0, in units of 100 ns.
    pub(crate) offset_100ns: i64,
    /// The vCPUs' TSC offset when it was taken, or last changed.
    pub(crate) tsc_offset: u64,
}

impl ReferenceSnapshot {
    /// The snapshot of this scale that gives `units` at the base `base`.
    pub(crate) const fn through(
        base: u64,
        tsc_offset: u64,
        units: u64,
        scale: ReferenceScale,
    ) -> Self {
        let at_zero = units.wrapping_sub(scaled(base.wrapping_add(tsc_offset), scale));
        Self { scale, offset_100ns: at_zero.cast_signed(), tsc_offset }
    }

    /// That of a page which is in the guest's memory already.
    pub(crate) const fn of_page(page: &ReferenceInfo, tsc_offset: u64) -> Self {
        Self { scale: page.scale, offset_100ns: page.offset_100ns, tsc_offset }
    }

    pub(crate) const fn units(self, tsc: u64) -> u64 {
        scaled(tsc, self.scale).saturating_add_signed(self.offset_100ns)
    }
}

const fn scaled(tsc: u64, scale: ReferenceScale) -> u64 {
    ((tsc as u128 * scale.raw() as u128) >> 64) as u64
}

impl HyperV {
    /// Where its page is, if it is on. Bits 1 to 11 of the register are the
    /// guest's (TLFS, "Reference TSC Page MSR": RsvdP), kept and not looked at.
    pub(crate) const fn page(register: PageMsr) -> Option<ClockAddress> {
        match register.page() {
            Some(ClockAddress(address)) => Some(ClockAddress(address & !(PAGE_ALIGNMENT - 1))),
            None => None,
        }
    }

    /// The time that its page gives at the base `base`, if the page is valid.
    pub(crate) fn time_published(&self, base: u64) -> Option<Nanos> {
        let snapshot = self.snapshot?;
        let units = snapshot.units(base.wrapping_add(snapshot.tsc_offset));
        Some(Nanos(units.saturating_mul(NANOS_PER_UNIT)))
    }

    /// The base of all TSCs moved by `by`: no guest's TSC changes, so the page does not.
    pub(crate) fn rebase(&mut self, by: u64) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.tsc_offset = snapshot.tsc_offset.wrapping_sub(by);
        }
    }

    pub(crate) const fn forget_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// As in a new partition; the page's sequence continues.
    pub(crate) fn reset(&mut self) {
        *self = Self { sequence: self.sequence, ..Self::default() };
    }

    /// The guest has taken its id back. What the host promised of the TSC stays, as in KVM.
    pub(crate) fn forget_guest(&mut self) {
        let Self { sequence, invariant_control, .. } = *self;
        *self = Self { sequence, invariant_control, ..Self::default() };
    }

    /// The vector and the virtual processor to interrupt, if the guest
    /// requested it.
    pub(crate) const fn wants_interrupt(&self) -> Option<(u8, VcpuId)> {
        if self.reenlightenment & REENLIGHTENMENT_ENABLED == 0 {
            return None;
        }
        Some((self.reenlightenment as u8, VcpuId((self.reenlightenment >> 32) as u32)))
    }

    /// Whether the guest requested emulation of the old rate meanwhile.
    pub(crate) const fn wants_emulation(&self) -> bool {
        self.wants_interrupt().is_some() && self.emulation_control & 1 == 1
    }

    /// Checks a register, of a guest's write or of a saved VM.
    pub(crate) const fn check(msr: u32, value: u64) -> Result<(), MsrError> {
        let reserved = match msr {
            HV_REENLIGHTENMENT_CONTROL => REENLIGHTENMENT_RESERVED,
            HV_TSC_EMULATION_CONTROL | HV_TSC_EMULATION_STATUS | HV_TSC_INVARIANT_CONTROL => !1,
            _ => 0,
        };
        if value & reserved != 0 {
            return Err(MsrError::Reserved { msr, value, reserved });
        }
        Ok(())
    }
}
