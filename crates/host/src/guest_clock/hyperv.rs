//! Hyper-V's MSRs and its page.
//!
//! The reference counter and the page give the same time: while the page is
//! valid the counter is computed from it (as in KVM: get_time_ref_counter,
//! arch/x86/kvm/hyperv.c), and otherwise from the VM's clock.
//!
//! A guest that caches the TSC's rate must be notified when a migration changes
//! it. It sets up *re-enlightenment*: an interrupt vector, and the request to
//! emulate the old rate until it writes 0 to the emulation status. Where the
//! VMM cannot trap RDTSC, the page is switched off until then instead.
//!
//! Such a guest expects that its page does not change until then, whatever
//! happens to the host's clocks: Hyper-V, as a guest, keeps the page's values in
//! its own timers (tsc_page_update_unsafe, arch/x86/kvm/hyperv.c). So a valid page
//! is written again only when the guest writes its MSR or acknowledges.

use pvclock::hyperv::{ReferenceReader, ReferenceScale, ReferenceWriter};

use super::GuestClock;
use crate::hyperv::{HyperV, NANOS_PER_UNIT, ReferenceSnapshot};
use crate::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_EMULATION_CONTROL, HV_TSC_EMULATION_STATUS, HV_TSC_FREQUENCY,
    HV_TSC_INVARIANT_CONTROL, HV_VP_INDEX, PageMsr,
};
use crate::pages::ReferencePage;
use crate::tsc::Source;
use crate::{ClockMemory, HostClocks, HostLogEvent, MsrError, TscMode, VcpuId};

impl GuestClock {
    pub(super) fn read_hyperv_msr(
        &self,
        vcpu: VcpuId,
        msr: u32,
        now: HostClocks,
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
            HV_TSC_INVARIANT_CONTROL if self.settings.tsc_invariant => hyperv.invariant_control,
            _ => return Err(MsrError::NotOurs { msr, kind: self.settings.kind }),
        })
    }

    pub(super) fn write_hyperv_msr(
        &mut self,
        msr: u32,
        value: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        HyperV::check(msr, value)?;
        let known = self.hyperv.guest_os_id != 0;
        match msr {
            HV_GUEST_OS_ID => {
                self.hyperv.guest_os_id = value;
                if value == 0 {
                    self.hyperv.forget_guest();
                }
            }
            HV_VP_INDEX | HV_TIME_REF_COUNT | HV_TSC_FREQUENCY | HV_APIC_FREQUENCY => {
                return Err(MsrError::ReadOnly { msr, value });
            }
            // Linux enables the page before it writes its id: hv_init_clocksource is called
            // by ms_hyperv_init_platform, hyperv_init later (seen with 6.1). KVM allows it.
            HV_REFERENCE_TSC => self.register_reference_page(value, now, memory)?,
            // Linux writes it before its id: ms_hyperv_init_platform, arch/x86/kernel/cpu/mshyperv.c.
            HV_TSC_INVARIANT_CONTROL if self.settings.tsc_invariant => {
                if value < self.hyperv.invariant_control {
                    return Err(MsrError::StaysSet { msr, value });
                }
                self.hyperv.invariant_control = value;
            }
            HV_TSC_INVARIANT_CONTROL => {
                return Err(MsrError::NotOurs { msr, kind: self.settings.kind });
            }
            _ if !known && value != 0 => return Err(MsrError::NoGuestOs { msr, value }),
            HV_REENLIGHTENMENT_CONTROL => self.hyperv.reenlightenment = value,
            HV_TSC_EMULATION_CONTROL => self.hyperv.emulation_control = value,
            // Only the host sets it.
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
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        let register = PageMsr(value);
        if let Some(address) = HyperV::page(register) {
            memory.page::<ReferencePage>(address).map_err(|why| MsrError::Misplaced {
                msr: HV_REFERENCE_TSC,
                value,
                why,
            })?;
        }
        self.release_reference(now);
        self.hyperv.reference = register;
        self.recompute(now, memory);
        Ok(())
    }

    /// Reference time in units of 100 ns, from the page while it is valid.
    pub(super) fn reference_units(&self, vcpu: VcpuId, now: HostClocks) -> u64 {
        match (self.hyperv.snapshot, self.guest_tsc(vcpu, now)) {
            (Some(snapshot), Some(tsc)) => snapshot.units(tsc),
            _ => self.clock(now).0 / NANOS_PER_UNIT,
        }
    }

    /// The guest itself has the page written: it need not stay as it is.
    fn release_reference(&mut self, now: HostClocks) {
        self.latest_read = self.latest_readable(now);
        self.hyperv.forget_snapshot();
    }

    /// The first write after a restore: a page that must stay as it is, is in the
    /// restored memory.
    pub(super) fn publish_restored_reference(&mut self, memory: &impl ClockMemory) {
        if self.hyperv.wants_emulation()
            && !self.reference_waits()
            && let Some(address) = HyperV::page(self.hyperv.reference)
            && let Ok(page) = memory.page::<ReferencePage>(address)
            && let Ok(info) = ReferenceReader::new(page).info()
        {
            let snapshot = ReferenceSnapshot::of_page(&info, self.tsc_offset_of_first());
            self.hyperv.snapshot = Some(snapshot);
        }
        self.publish_reference(memory);
    }

    /// Writes the page from the common snapshot, or switches it off where the
    /// TSC cannot be used, or not yet. A valid page of a guest that wants
    /// emulation stays.
    pub(super) fn publish_reference(&mut self, memory: &impl ClockMemory) {
        let waits = self.reference_waits();
        let offset = self.tsc_offset_of_first();
        if self.hyperv.wants_emulation()
            && !waits
            && let Some(snapshot) = &mut self.hyperv.snapshot
        {
            snapshot.tsc_offset = offset;
            return;
        }
        self.hyperv.forget_snapshot();
        let Some(address) = HyperV::page(self.hyperv.reference) else { return };
        let Ok(page) = memory.page::<ReferencePage>(address) else { return };
        let mut writer = ReferenceWriter::resume(page, self.hyperv.sequence);
        let scale = ReferenceScale::from_hertz(self.settings.advertised_tsc);
        let (false, Ok(common), Ok(scale)) = (waits, &self.master, scale) else {
            writer.switch_off();
            memory.written(address, size_of::<ReferencePage>());
            return;
        };
        let units = common.system_time.0 / NANOS_PER_UNIT;
        let snapshot = ReferenceSnapshot::through(common.tsc_timestamp, offset, units, scale);
        writer.write(snapshot.scale, snapshot.offset_100ns);
        memory.written(address, size_of::<ReferencePage>());
        self.hyperv.sequence = writer.sequence();
        self.hyperv.snapshot = Some(snapshot);
    }

    /// Whether the page is off until the guest acknowledges a rate that nothing
    /// emulates.
    fn reference_waits(&self) -> bool {
        self.hyperv.unacknowledged.is_some() && !self.emulates_for_guest()
    }

    fn tsc_offset_of_first(&self) -> u64 {
        self.vcpus.values().next().map_or(0, |vcpu| vcpu.tsc_offset)
    }

    /// Whether the old rate is emulated until the guest acknowledges.
    pub(super) fn emulates_for_guest(&self) -> bool {
        self.hyperv.unacknowledged.is_some()
            && self.settings.tsc_mode == TscMode::Real
            && matches!(self.source, Source::Emulated { .. })
    }

    /// The guest knows the new rate: the TSC runs at it from now on.
    fn acknowledged(&mut self, now: HostClocks, memory: &impl ClockMemory) {
        let Some(rate) = self.hyperv.unacknowledged else { return };
        self.release_reference(now);
        if self.emulates_for_guest() {
            let host = Source::unscaled(self.settings.host_tsc);
            self.change_sources(|source| (host, host.base(now).wrapping_sub(source.base(now))));
        }
        self.hyperv.unacknowledged = None;
        self.advertise(rate, now);
        self.log.push(now.boot, HostLogEvent::Reenlightened);
        self.recompute(now, memory);
    }
}
