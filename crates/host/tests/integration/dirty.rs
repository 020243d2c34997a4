//! Every write to guest memory is marked: a live migration sends what it is told of.

use std::cell::RefCell;

use crate::common::{HOST_TSC, SECOND, at};
use pvclock::Nanos;
use pvclock::shared::Page;
use pvclock_host::msr::{
    HV_GUEST_OS_ID, HV_REFERENCE_TSC, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_WALL_CLOCK,
};
use pvclock_host::{
    ClockAddress, ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent,
    Misplaced, PlainMemory, VcpuId,
};

const VCPU: VcpuId = VcpuId(0);

/// Memory, and what was marked in it.
struct Logged {
    memory: PlainMemory,
    dirty: RefCell<Vec<(u64, usize)>>,
}

impl ClockMemory for Logged {
    fn page<P: Page + 'static>(&self, address: ClockAddress) -> Result<&P, Misplaced> {
        self.memory.page(address)
    }

    fn written(&self, address: ClockAddress, length: usize) {
        self.dirty.borrow_mut().push((address.0, length));
    }
}

struct Vm {
    host: GuestClock,
    memory: Logged,
}

impl Vm {
    fn new(kind: ClockProvider) -> Self {
        let memory = Logged { memory: PlainMemory::new(1), dirty: RefCell::default() };
        let host = GuestClock::new(ClockSettings::new(kind, HOST_TSC), at(0)).unwrap();
        let mut vm = Self { host, memory };
        vm.event(HostEvent::VcpuCreated { vcpu: VCPU, tsc_offset: 0 }, at(0));
        vm
    }

    fn event(&mut self, event: HostEvent, now: HostClocks) -> Vec<(u64, usize)> {
        self.host.handle(event, now, &self.memory);
        self.memory.dirty.take()
    }

    fn msr(&mut self, msr: u32, value: u64) -> Vec<(u64, usize)> {
        self.host.write_msr(VCPU, msr, value, at(SECOND), &self.memory).unwrap();
        self.memory.dirty.take()
    }

    fn enter(&mut self) -> Vec<(u64, usize)> {
        self.host.before_entry(VCPU, at(SECOND), &self.memory);
        self.memory.dirty.take()
    }
}

#[test]
fn kvm_pages_are_marked_when_they_are_written() {
    let mut vm = Vm::new(ClockProvider::Kvm);
    let [time, wall, steal] =
        [PlainMemory::time(0), PlainMemory::wall_clock(0), PlainMemory::steal(0)].map(|at| at.0);
    assert_eq!(vm.msr(KVM_WALL_CLOCK, wall), [(wall, 12)]);
    assert_eq!(vm.msr(KVM_SYSTEM_TIME, time | 1), []);
    assert_eq!(vm.enter(), [(time, 32)]);
    assert_eq!(vm.enter(), [], "nothing was due");
    assert_eq!(vm.msr(KVM_STEAL_TIME, steal | 1), []);
    assert_eq!(vm.enter(), [(steal, 64)]);
    assert_eq!(vm.event(HostEvent::VcpuPreempted { vcpu: VCPU }, at(SECOND)), [(steal, 64)]);
    assert_eq!(vm.enter(), [(steal, 64)]);
    assert_eq!(vm.event(HostEvent::ClockSet { clock: Nanos(0) }, at(SECOND)), []);
    assert_eq!(vm.enter(), [(time, 32)]);
}

#[test]
fn hyperv_s_page_is_marked_when_it_is_written_and_when_it_is_switched_off() {
    let mut vm = Vm::new(ClockProvider::HyperV);
    let page = PlainMemory::reference(0).0;
    vm.msr(HV_GUEST_OS_ID, 1);
    let marked = |dirty: Vec<(u64, usize)>| matches!(dirty[..], [(at, _)] if at == page);
    assert!(marked(vm.msr(HV_REFERENCE_TSC, page | 1)));
    assert!(marked(vm.event(HostEvent::HostResumed, at(2 * SECOND))));
    assert!(marked(vm.event(HostEvent::HostClocksource { is_tsc: false }, at(2 * SECOND))));
}
