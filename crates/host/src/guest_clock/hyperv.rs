//! Hyper-V's MSRs and its page.
//!
//! The reference counter and the page tell one time: while the page is good
//! the counter is computed from it (as in KVM: get_time_ref_counter,
//! arch/x86/kvm/hyperv.c), and otherwise from the VM's clock.
//!
//! A guest that keeps the TSC's rate for itself has to be told when a
//! migration changes it. It sets up *re-enlightenment*: a vector to be
//! interrupted by, and the wish to have the old rate emulated until it writes
//! 0 to the emulation status. Where the VMM cannot trap RDTSC, the page is
//! switched off until then instead.

use pvclock::hyperv::{ReferencePage, ReferenceScale, ReferenceWriter};
use pvclock::{Hertz, Nanos};

use super::GuestClock;
use crate::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_EMULATION_CONTROL, HV_TSC_EMULATION_STATUS, HV_TSC_FREQUENCY,
    HV_VP_INDEX, PageMsr,
};
use crate::tsc::Source;
use crate::{GuestMemory, LogEvent, MsrError, Reading, TscMode, VcpuId};

const NANOS_PER_UNIT: u64 = 100;
const PAGE_ALIGNMENT: u64 = 4096;
/// Bits 8 to 15 and 17 to 31 of the re-enlightenment control.
const REENLIGHTENMENT_RESERVED: u64 = 0xfffe_ff00;
const REENLIGHTENMENT_ENABLED: u64 = 1 << 16;

/// The VM's registers, and what its page says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HyperV {
    pub(crate) guest_os_id: u64,
    pub(crate) reference: PageMsr,
    /// Of the page's last update.
    pub(crate) sequence: u32,
    /// What the page says, while it is good.
    pub(crate) line: Option<ReferenceLine>,
    pub(crate) reenlightenment: u64,
    pub(crate) emulation_control: u64,
    /// The TSC's rate here, which the guest has not taken note of.
    pub(crate) unacknowledged: Option<Hertz>,
}

/// What a good page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceLine {
    scale: ReferenceScale,
    /// At TSC 0, in units of 100 ns.
    offset_100ns: i64,
    /// Of the vCPUs' TSCs, when it was drawn.
    tsc_offset: u64,
}

impl ReferenceLine {
    /// The line of this scale that says `units` at the base `base`.
    const fn through(base: u64, tsc_offset: u64, units: u64, scale: ReferenceScale) -> Self {
        let at_zero = units.wrapping_sub(scaled(base.wrapping_add(tsc_offset), scale));
        Self { scale, offset_100ns: at_zero.cast_signed(), tsc_offset }
    }

    const fn units(self, tsc: u64) -> u64 {
        scaled(tsc, self.scale).saturating_add_signed(self.offset_100ns)
    }
}

const fn scaled(tsc: u64, scale: ReferenceScale) -> u64 {
    ((tsc as u128 * scale.raw() as u128) >> 64) as u64
}

impl HyperV {
    /// The time its page tells at the base `base`, if it tells any.
    pub(super) fn time_told(&self, base: u64) -> Option<Nanos> {
        let line = self.line?;
        let units = line.units(base.wrapping_add(line.tsc_offset));
        Some(Nanos(units.saturating_mul(NANOS_PER_UNIT)))
    }

    /// As [`GuestClock::rebase`]: no guest's TSC changes, so the page does not.
    pub(super) fn rebase(&mut self, by: u64) {
        if let Some(line) = &mut self.line {
            line.tsc_offset = line.tsc_offset.wrapping_sub(by);
        }
    }

    pub(crate) const fn forget_line(&mut self) {
        self.line = None;
    }

    /// As a partition that was just made; the page's sequence goes on.
    pub(super) fn reset(&mut self) {
        *self = Self { sequence: self.sequence, ..Self::default() };
    }

    /// The vector and the virtual processor to interrupt, if the guest wants
    /// it.
    pub(crate) const fn wants_interrupt(&self) -> Option<(u8, VcpuId)> {
        if self.reenlightenment & REENLIGHTENMENT_ENABLED == 0 {
            return None;
        }
        Some((self.reenlightenment as u8, VcpuId((self.reenlightenment >> 32) as u32)))
    }

    /// Whether the guest wants the old rate emulated meanwhile.
    pub(crate) const fn wants_emulation(&self) -> bool {
        self.wants_interrupt().is_some() && self.emulation_control & 1 == 1
    }

    /// What may be in the registers, for a guest and for a saved VM alike.
    pub(crate) const fn check(msr: u32, value: u64) -> Result<(), MsrError> {
        let reserved = match msr {
            HV_REFERENCE_TSC => (PAGE_ALIGNMENT - 1) & !1,
            HV_REENLIGHTENMENT_CONTROL => REENLIGHTENMENT_RESERVED,
            HV_TSC_EMULATION_CONTROL | HV_TSC_EMULATION_STATUS => !1,
            _ => 0,
        };
        if value & reserved != 0 {
            return Err(MsrError::Reserved { msr, value, reserved });
        }
        Ok(())
    }
}

impl GuestClock {
    pub(super) fn read_hyperv_msr(
        &self,
        vcpu: VcpuId,
        msr: u32,
        now: Reading,
    ) -> Result<u64, MsrError> {
        let hyperv = &self.hyperv;
        Ok(match msr {
            HV_GUEST_OS_ID => hyperv.guest_os_id,
            HV_VP_INDEX => u64::from(vcpu.0),
            HV_TIME_REF_COUNT => self.reference_units(vcpu, now),
            HV_REFERENCE_TSC => hyperv.reference.0,
            HV_TSC_FREQUENCY => hyperv.unacknowledged.unwrap_or(self.settings.advertised_tsc).0,
            HV_APIC_FREQUENCY => self.settings.apic.0,
            HV_REENLIGHTENMENT_CONTROL => hyperv.reenlightenment,
            HV_TSC_EMULATION_CONTROL => hyperv.emulation_control,
            HV_TSC_EMULATION_STATUS => u64::from(self.emulates_for_guest()),
            _ => return Err(MsrError::NotOurs { msr, kind: self.settings.kind }),
        })
    }

    pub(super) fn write_hyperv_msr(
        &mut self,
        msr: u32,
        value: u64,
        now: Reading,
        memory: &impl GuestMemory,
    ) -> Result<(), MsrError> {
        HyperV::check(msr, value)?;
        let known = self.hyperv.guest_os_id != 0;
        match msr {
            HV_GUEST_OS_ID => {
                self.hyperv.guest_os_id = value;
                if value == 0 {
                    self.hyperv.reset();
                }
            }
            HV_VP_INDEX | HV_TIME_REF_COUNT | HV_TSC_FREQUENCY | HV_APIC_FREQUENCY => {
                return Err(MsrError::ReadOnly { msr, value });
            }
            _ if !known && value != 0 => return Err(MsrError::NoGuestOs { msr, value }),
            HV_REFERENCE_TSC => self.register_reference_page(value, now, memory)?,
            HV_REENLIGHTENMENT_CONTROL => self.hyperv.reenlightenment = value,
            HV_TSC_EMULATION_CONTROL => self.hyperv.emulation_control = value,
            // Only the host says that it emulates.
            HV_TSC_EMULATION_STATUS if value != 0 => {
                return Err(MsrError::Reserved { msr, value, reserved: u64::MAX });
            }
            HV_TSC_EMULATION_STATUS => self.acknowledged(now, memory),
            _ => return Err(MsrError::NotOurs { msr, kind: self.settings.kind }),
        }
        Ok(())
    }

    fn register_reference_page(
        &mut self,
        value: u64,
        now: Reading,
        memory: &impl GuestMemory,
    ) -> Result<(), MsrError> {
        let register = PageMsr(value);
        if let Some(address) = register.page() {
            memory.page::<ReferencePage>(address).map_err(|why| MsrError::Misplaced {
                msr: HV_REFERENCE_TSC,
                value,
                why,
            })?;
        }
        self.hyperv.reference = register;
        self.recompute(now, memory);
        Ok(())
    }

    /// Reference time in units of 100 ns, as the page tells it while it is
    /// good.
    pub(super) fn reference_units(&self, vcpu: VcpuId, now: Reading) -> u64 {
        match (self.hyperv.line, self.guest_tsc(vcpu, now)) {
            (Some(line), Some(tsc)) => line.units(tsc),
            _ => self.clock(now).0 / NANOS_PER_UNIT,
        }
    }

    /// Writes the page from the common line, or switches it off: the TSC is
    /// then no clock, or not yet again.
    pub(super) fn publish_reference(&mut self, memory: &impl GuestMemory) {
        self.hyperv.forget_line();
        let Some(address) = self.hyperv.reference.page() else { return };
        let Ok(page) = memory.page::<ReferencePage>(address) else { return };
        let mut writer = ReferenceWriter::resume(page, self.hyperv.sequence);
        let waits = self.hyperv.unacknowledged.is_some() && !self.emulates_for_guest();
        let scale = ReferenceScale::from_hertz(self.settings.advertised_tsc);
        let (false, Ok(common), Ok(scale)) = (waits, &self.master, scale) else {
            writer.switch_off();
            return;
        };
        let offset = self.vcpus.values().next().map_or(0, |vcpu| vcpu.tsc_offset);
        let units = common.system_time.0 / NANOS_PER_UNIT;
        let line = ReferenceLine::through(common.tsc_timestamp, offset, units, scale);
        writer.write(line.scale, line.offset_100ns);
        self.hyperv.sequence = writer.sequence();
        self.hyperv.line = Some(line);
    }

    /// Whether the old rate is emulated until the guest has taken note.
    pub(super) fn emulates_for_guest(&self) -> bool {
        self.hyperv.unacknowledged.is_some()
            && self.settings.tsc_mode == TscMode::Real
            && matches!(self.source, Source::Emulated { .. })
    }

    /// The guest knows the new rate: the TSC runs at it from here on.
    fn acknowledged(&mut self, now: Reading, memory: &impl GuestMemory) {
        let Some(rate) = self.hyperv.unacknowledged else { return };
        if self.emulates_for_guest() {
            let emulated = self.source.base(now);
            self.source = Source::unscaled(self.settings.host_tsc);
            self.rebase(self.source.base(now).wrapping_sub(emulated));
        }
        self.hyperv.unacknowledged = None;
        self.tell(rate, now);
        self.log.push(now.boot, LogEvent::Reenlightened);
        self.recompute(now, memory);
    }
}
