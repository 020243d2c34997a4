//! The guest code's machine: MSRs and CPUID go to the provider, ports and device
//! memory to the devices, pages to memory that no vCPU runs in.

use std::cell::RefCell;

use guest::hardware::{Hardware, Misbehaviour, Refused};
use guest::layout::{MEMORY_MIN, Pages};
use host::{Event, GuestClock, HostClocks, VcpuId};
use pvclock::Ticks;
use pvclock::shared::Split;
use vmm::GuestRam;
use vmm::MachineError;
use vmm::devices::{Devices, Moment, Present};

use super::time::Time;

/// The only vCPU.
pub(crate) const BOOT: VcpuId = VcpuId(0);

/// CPUID 1, ECX: a hypervisor is present.
const FEATURES: u32 = 1;
const HYPERVISOR: u32 = 1 << 31;

/// One vCPU's machine.
pub(crate) struct InProcessVm<T> {
    pub(crate) time: T,
    pub(crate) ram: GuestRam,
    host: RefCell<GuestClock>,
    devices: RefCell<Devices>,
    started: HostClocks,
}

impl<T: Time> InProcessVm<T> {
    pub(crate) fn new(settings: host::Settings, time: T) -> Result<Self, MachineError> {
        let now = time.reading();
        let vm = Self {
            ram: GuestRam::new(MEMORY_MIN)?,
            host: RefCell::new(GuestClock::new(settings, now)?),
            devices: RefCell::new(Devices::new(&Present::ALL)),
            started: now,
            time,
        };
        vm.host_event(Event::VcpuCreated { vcpu: BOOT, tsc_offset: 0 });
        Ok(vm)
    }

    /// Calls the provider as at an exit; the vCPU enters its guest afterwards.
    pub(crate) fn with_clock<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, HostClocks, &GuestRam) -> R,
    ) -> R {
        self.time.half_an_exit();
        let mut host = self.host.borrow_mut();
        let result = action(&mut host, self.time.reading(), &self.ram);
        host.before_entry(BOOT, self.time.reading(), &self.ram);
        drop(host);
        self.time.half_an_exit();
        result
    }

    /// Reports an event of the VM to the provider.
    pub(crate) fn host_event(&self, event: Event) {
        self.with_clock(|host, now, ram| host.handle(event, now, ram));
    }

    fn with_devices(&self, action: impl FnOnce(&mut Devices, &Moment)) {
        self.time.half_an_exit();
        let now = self.time.reading();
        let moment = Moment {
            since_start: pvclock::Nanos(now.boot.0 - self.started.boot.0),
            real: now.real,
            guest_tsc: Ticks(now.tsc.0),
        };
        action(&mut self.devices.borrow_mut(), &moment);
        self.time.half_an_exit();
    }
}

impl<T: Time> Hardware for InProcessVm<T> {
    type Counter = T;
    type Memory = Split;

    #[inline(always)]
    fn counter(&self) -> &T {
        &self.time
    }

    fn cpuid(&self, function: u32, index: u32) -> [u32; 4] {
        let host = self.host.borrow();
        if function == FEATURES {
            let is_present = host.settings().kind.has_cpuid();
            return [0, 0, if is_present { HYPERVISOR } else { 0 }, 0];
        }
        host.cpuid(function, index).map_or([0; 4], |leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx])
    }

    fn read_msr(&self, msr: u32) -> Result<u64, Refused> {
        self.with_clock(|host, now, ram| host.read_msr(BOOT, msr, now, ram)).map_err(|_| Refused)
    }

    fn write_msr(&self, msr: u32, value: u64) -> Result<(), Refused> {
        self.with_clock(|host, now, ram| host.write_msr(BOOT, msr, value, now, ram))
            .map_err(|_| Refused)
    }

    fn port_read_8(&self, port: u16) -> u8 {
        let mut data = [0];
        self.with_devices(|devices, now| devices.port_read(port, &mut data, now));
        data[0]
    }

    fn port_read_32(&self, port: u16) -> u32 {
        let mut data = [0; 4];
        self.with_devices(|devices, now| devices.port_read(port, &mut data, now));
        u32::from_le_bytes(data)
    }

    fn port_write_8(&self, port: u16, value: u8) {
        self.with_devices(|devices, now| devices.port_write(port, &[value], now));
    }

    fn mmio_read_64(&self, address: u64) -> u64 {
        let mut data = [0; 8];
        self.with_devices(|devices, now| devices.mmio_read(address, &mut data, now));
        u64::from_le_bytes(data)
    }

    fn mmio_write_64(&self, address: u64, value: u64) {
        self.with_devices(|devices, now| devices.mmio_write(address, &value.to_le_bytes(), now));
    }

    #[inline(always)]
    fn pages(&self) -> &Pages<Split> {
        self.ram.pages()
    }

    fn pause(&self) {
        std::hint::spin_loop();
    }

    /// Nothing would wake it.
    fn halt(&self) {}

    fn interrupts(&self) -> u64 {
        0
    }

    /// There is no vCPU to misbehave.
    fn misbehave(&self, _: Misbehaviour) {}
}
