//! The machine's VMClock page: the host's time in the guest's TSC, through pauses, writes
//! of the TSC, and restores.

use std::thread::sleep;
use std::time::Duration;

use crate::need::Need;
use crate::program::alone;
use host::RestorePolicy;
use pvclock::vmclock::VmClockInfo;
use vmm::{ClockBackend, Machine, Settings, host_clock};

const KVM: &[Need] = &[Need::Kvm];

const AWHILE: Duration = Duration::from_millis(300);

fn start(backend: ClockBackend) -> Machine {
    Machine::start(&Settings { vmclock: true, ..Settings::new(backend) }).expect("a machine")
}

/// The page, which is right at this moment for the guest's TSC.
fn right(machine: &Machine, what: &str) -> VmClockInfo {
    let offset = machine.tsc_offset(0).expect("KVM tells the TSC's offset");
    let info = machine.vmclock().expect("a page");
    let now = host_clock::read_with_width();
    let time = info.time_at(now.clocks.tsc.0.wrapping_add(offset)).expect(what);
    let utc = time.utc().expect(what);
    let off = utc.since_1970_ns.abs_diff(now.clocks.real.0.0.cast_signed());
    assert!(off <= utc.max_error.0 + 1_000, "{what}: {off} ns off: {utc:?}");
    // 500 ppm of the 100 ms between two updates, and what a busy host adds.
    assert!(utc.max_error.0 < 5_000_000, "{what}: {utc:?}");
    info
}

#[test]
fn lab_tells_the_time_by_vmclock() {
    let Some(_program) = &alone(KVM) else { return };
    let tsc = vmm::kvm::host_tsc().expect("KVM reports its TSC's frequency");
    let own = ClockBackend::Own(host::ClockSettings::new(host::ClockProvider::Kvm, tsc));
    for backend in [ClockBackend::Kernel, own] {
        let machine = start(backend);
        let first = right(&machine, "at first");
        sleep(AWHILE);
        assert!(right(&machine, "later").seq_count > first.seq_count, "it is updated");
        machine.pause().expect("it can be paused");
        sleep(AWHILE);
        machine.resume().expect("it goes on");
        let resumed = right(&machine, "after a pause, over which the TSC went on");
        assert_eq!(resumed.disruption_marker, first.disruption_marker);
        // Not every KVM takes an offset: only what it took is a disruption.
        let before = machine.tsc_offset(0).expect("an offset");
        let taken = machine.set_tsc_offset(0, before.wrapping_add(1 << 40)).expect("an offset");
        let moved = right(&machine, "with another TSC");
        assert_eq!(moved.disruption_marker != first.disruption_marker, taken != before);
    }
}

/// No vCPU has run since when it returns.
#[test]
fn lab_restores_a_vmclock_that_is_right() {
    let Some(_program) = &alone(KVM) else { return };
    let tsc = vmm::kvm::host_tsc().expect("KVM reports its TSC's frequency");
    let own = ClockBackend::Own(host::ClockSettings::new(host::ClockProvider::Kvm, tsc));
    for backend in [ClockBackend::Kernel, own] {
        let machine = start(backend);
        machine.discover(0).expect("a guest that replies");
        let first = right(&machine, "at first");
        let saved = machine.save().expect("a machine that can be saved");
        drop(machine);
        sleep(AWHILE);
        let mut generations = vec![first.vm_generation];
        for policy in [RestorePolicy::Advance, RestorePolicy::Freeze] {
            let (machine, _) = Machine::restore(&saved, policy).expect("a restored one");
            let restored = right(&machine, "restored");
            assert_ne!(restored.disruption_marker, first.disruption_marker, "{policy:?}");
            assert!(!generations.contains(&restored.vm_generation), "{policy:?}: {restored:?}");
            generations.push(restored.vm_generation);
            machine.discover(0).expect("a guest that goes on");
        }
    }
}
