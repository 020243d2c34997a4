//! kvm-clock's MSRs.

use pvclock::Nanos;
use pvclock::kvm_clock::{WallClock, WallClockWriter};

use super::GuestClock;
use crate::msr::{
    KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK, KVM_WALL_CLOCK_OLD,
    PageMsr, STEAL_ALIGNMENT, TIME_ALIGNMENT,
};
use crate::pages::{StealPage, TimePage, WallClockPage};
use crate::vcpu::Vcpu;
use crate::{ClockAddress, ClockMemory, HostClocks, Misplaced, MsrError, VcpuId};

impl GuestClock {
    /// The vCPU whose choice of MSRs decides for the VM.
    pub(super) const BOOT_VCPU: VcpuId = VcpuId(0);

    pub(super) fn read_kvm_msr(&self, id: VcpuId, msr: u32) -> Result<u64, MsrError> {
        let vcpu = self.vcpus.get(&id).ok_or(MsrError::NoSuchVcpu { msr, vcpu: id })?;
        match msr {
            KVM_WALL_CLOCK | KVM_WALL_CLOCK_OLD => Ok(self.wall_clock),
            KVM_SYSTEM_TIME | KVM_SYSTEM_TIME_OLD => Ok(vcpu.system_time.0),
            KVM_STEAL_TIME => Ok(vcpu.steal_time.0),
            _ => Err(MsrError::NotOurs { msr, kind: self.settings.kind }),
        }
    }

    pub(super) fn write_kvm_msr(
        &mut self,
        vcpu: VcpuId,
        msr: u32,
        value: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        match msr {
            KVM_WALL_CLOCK | KVM_WALL_CLOCK_OLD => self.write_wall_clock(msr, value, now, memory),
            KVM_SYSTEM_TIME | KVM_SYSTEM_TIME_OLD => {
                self.register_time_page(vcpu, msr, value, now, memory)
            }
            KVM_STEAL_TIME => self.register_steal_page(vcpu, msr, value, memory),
            _ => Err(MsrError::NotOurs { msr, kind: self.settings.kind }),
        }
    }

    /// The register for a page that `check` finds in memory, and its vCPU.
    fn register_page(
        &mut self,
        id: VcpuId,
        msr: u32,
        value: u64,
        alignment: u64,
        check: impl FnOnce(ClockAddress) -> Result<(), Misplaced>,
    ) -> Result<(PageMsr, &mut Vcpu), MsrError> {
        let register = PageMsr::checked(msr, value, alignment)?;
        if let Some(address) = register.page() {
            check(address).map_err(|why| MsrError::Misplaced { msr, value, why })?;
        }
        let vcpu = self.vcpus.get_mut(&id).ok_or(MsrError::NoSuchVcpu { msr, vcpu: id })?;
        Ok((register, vcpu))
    }

    fn register_time_page(
        &mut self,
        id: VcpuId,
        msr: u32,
        value: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        let (register, vcpu) = self.register_page(id, msr, value, TIME_ALIGNMENT, |address| {
            memory.page::<TimePage>(address).map(|_| ())
        })?;
        vcpu.system_time = register;
        vcpu.time_is_due();
        if register.page().is_none() {
            vcpu.due.stopped = false;
        } else {
            self.all_are_due_soon(now);
        }
        if id == Self::BOOT_VCPU {
            self.boot_vcpu_uses_old_msr = msr == KVM_SYSTEM_TIME_OLD;
            self.recompute_if_changed(now, memory);
        }
        Ok(())
    }

    fn register_steal_page(
        &mut self,
        id: VcpuId,
        msr: u32,
        value: u64,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        let (register, vcpu) = self.register_page(id, msr, value, STEAL_ALIGNMENT, |address| {
            memory.page::<StealPage>(address).map(|_| ())
        })?;
        vcpu.steal_time = register;
        // The page does not cover the time before it was registered.
        vcpu.stolen_published = vcpu.stolen;
        vcpu.due.steal = register.page().is_some();
        Ok(())
    }

    /// Fills the wall clock, once and at once: real time less the VM's clock.
    fn write_wall_clock(
        &mut self,
        msr: u32,
        value: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        // 0 is no request, as for KVM (kvm_write_wall_clock).
        if value != 0 {
            let page = memory
                .page::<WallClockPage>(ClockAddress(value))
                .map_err(|why| MsrError::Misplaced { msr, value, why })?;
            let zero = now.real.0.0.saturating_sub(self.clock(now).0);
            WallClockWriter::new(page).write(split(Nanos(zero)));
            memory.written(ClockAddress(value), size_of::<WallClockPage>());
        }
        self.wall_clock = value;
        Ok(())
    }
}

/// The page's two fields; its seconds wrap in 2106.
const fn split(real: Nanos) -> WallClock {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    WallClock {
        seconds: (real.0 / NANOS_PER_SECOND) as u32,
        nanoseconds: (real.0 % NANOS_PER_SECOND) as u32,
    }
}
