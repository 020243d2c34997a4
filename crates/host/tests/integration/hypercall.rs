//! KVM's hypercalls: what each returns and asks for, and what a guest that abuses
//! them can make of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use pvclock_host::hypercall::{
    CLOCK_PAIRING, Delivery, Features, Halt, HypercallAction, HypercallRegisters, HypercallResult,
    Hypercalls, KICK_CPU, SCHED_YIELD, SEND_IPI, VAPIC_POLL_IRQ,
};
use pvclock_host::{ClockAddress, MsrError, VcpuId};

const EPERM: i64 = -1;
const EINVAL: i64 = -22;
const EOPNOTSUPP: i64 = -95;
const ENOSYS: i64 = -1000;

fn with_vcpus(offered: Features, vcpus: u32) -> Hypercalls {
    let mut calls = Hypercalls::new(offered, true);
    (0..vcpus).for_each(|vcpu| calls.add(VcpuId(vcpu)));
    calls
}

fn call(calls: &mut Hypercalls, number: u64, arguments: [u64; 4]) -> HypercallResult {
    let registers = HypercallRegisters { number, arguments, is_64_bit: true, privilege: 0 };
    calls.call(VcpuId(0), &registers)
}

fn nothing(result: i64) -> HypercallResult {
    HypercallResult { result, action: HypercallAction::None }
}

#[test]
fn what_is_not_offered_or_not_known_does_not_exist() {
    let mut calls = with_vcpus(Features::default(), 2);
    // 3 and 4 are PowerPC's, 12 is user space's under KVM.
    for number in [0, 2, 3, 4, KICK_CPU, SEND_IPI, SCHED_YIELD, 12, u64::MAX] {
        assert_eq!(call(&mut calls, number, [0, 1, 0, 0xf0]), nothing(ENOSYS), "{number}");
    }
    assert_eq!(calls.absurd().unknown, 9);
    // These two have no bit.
    assert_eq!(call(&mut calls, VAPIC_POLL_IRQ, [0; 4]), nothing(0));
    assert_eq!(call(&mut calls, CLOCK_PAIRING, [64, 0, 0, 0]).result, 0);
}

#[test]
fn only_the_guest_s_kernel_may_call() {
    let mut calls = with_vcpus(Features::ALL, 2);
    for privilege in 1..=3 {
        let arguments = [0, 1, 0, 0];
        let registers =
            HypercallRegisters { number: KICK_CPU, arguments, is_64_bit: true, privilege };
        assert_eq!(calls.call(VcpuId(0), &registers), nothing(EPERM));
    }
    assert_eq!(calls.absurd().unprivileged, 3);
    assert_eq!(calls.halt(VcpuId(1)), Halt::Sleep { may_poll: true }, "nobody kicked it");
}

#[test]
fn a_32_bit_guest_s_upper_halves_do_not_count() {
    let mut calls = with_vcpus(Features::ALL, 40);
    calls.halt(VcpuId(1));
    let garbage = 0xdead_beef << 32;
    let arguments = [garbage, garbage | 1, 0, 0];
    let number = garbage | KICK_CPU;
    let registers = HypercallRegisters { number, arguments, is_64_bit: false, privilege: 0 };
    let action = calls.call(VcpuId(0), &registers).action;
    assert_eq!(action, HypercallAction::Wake(VcpuId(1)));
    // The second word of the bitmap begins at bit 32 there.
    let arguments = [1, 1, 2, 0xf0];
    let registers =
        HypercallRegisters { number: SEND_IPI, arguments, is_64_bit: false, privilege: 0 };
    let answer = calls.call(VcpuId(0), &registers);
    let HypercallAction::Interrupt(targets, Delivery::Fixed(0xf0)) = answer.action else {
        panic!()
    };
    assert_eq!(targets.iter().collect::<Vec<_>>(), [VcpuId(2), VcpuId(34)]);
    assert_eq!(answer.result, 2);
}

#[test]
fn kicks_of_vcpus_that_are_not_there_do_nothing() {
    let mut calls = with_vcpus(Features::ALL, 2);
    for apic in [2, 255, u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, u64::MAX] {
        assert_eq!(call(&mut calls, KICK_CPU, [0, apic, 0, 0]), nothing(0), "{apic}");
        assert_eq!(call(&mut calls, SCHED_YIELD, [apic, 0, 0, 0]), nothing(0), "{apic}");
    }
    assert_eq!(calls.absurd().absent, 12);
    assert_eq!(calls.halt(VcpuId(1)), Halt::Sleep { may_poll: true });
}

#[test]
fn a_yield_is_to_another_that_is_there() {
    let mut calls = with_vcpus(Features::ALL, 2);
    let to = |calls: &mut Hypercalls, apic| call(calls, SCHED_YIELD, [apic, 0, 0, 0]).action;
    assert_eq!(to(&mut calls, 1), HypercallAction::YieldTo(VcpuId(1)));
    assert_eq!(to(&mut calls, 0), HypercallAction::None, "itself");
}

#[test]
fn interrupts_go_to_those_of_128_that_are_there() {
    let mut calls = with_vcpus(Features::ALL, 3);
    let ipi = |calls: &mut Hypercalls, low, high, first, icr| {
        let answer = call(calls, SEND_IPI, [low, high, first, icr]);
        let targets = match answer.action {
            HypercallAction::Interrupt(targets, _) => targets.iter().map(|vcpu| vcpu.0).collect(),
            _ => Vec::new(),
        };
        (answer.result, targets)
    };
    assert_eq!(ipi(&mut calls, 0b101, 0, 0, 0xf0), (2, vec![0, 2]));
    assert_eq!(ipi(&mut calls, u64::MAX, u64::MAX, 1, 0x400), (2, vec![1, 2]));
    assert_eq!(calls.absurd().absent, 126);
    assert_eq!(ipi(&mut calls, 0, 0, 0, 0xf0), (0, vec![]));
    assert_eq!(ipi(&mut calls, u64::MAX, u64::MAX, u64::from(u32::MAX), 0xf0), (0, vec![]));
    // The CPU's own vectors, INIT, logical destinations, a shorthand.
    for icr in [0x0f, 0x5f0, 0x8f0, 0x4_00f0, 0xc_00f0] {
        assert_eq!(ipi(&mut calls, 1, 0, 0, icr), (EINVAL, vec![]), "{icr:#x}");
    }
}

#[test]
fn a_pair_needs_the_wall_clock_and_a_tsc() {
    let mut calls = with_vcpus(Features::ALL, 1);
    let pair = call(&mut calls, CLOCK_PAIRING, [0x5000, 0, 0, 0]);
    assert_eq!(
        pair,
        HypercallResult { result: 0, action: HypercallAction::Pair(ClockAddress(0x5000)) }
    );
    assert_eq!(call(&mut calls, CLOCK_PAIRING, [0x5000, 1, 0, 0]), nothing(EOPNOTSUPP));
    let mut without = Hypercalls::new(Features::ALL, false);
    assert_eq!(call(&mut without, CLOCK_PAIRING, [0x5000, 0, 0, 0]), nothing(EOPNOTSUPP));
}

#[test]
fn a_guest_that_polls_itself_keeps_its_host_from_it() {
    let mut calls = with_vcpus(Features::ALL, 2);
    let vcpu = VcpuId(1);
    assert_eq!(calls.read_poll_control(vcpu), Ok(1));
    assert_eq!(calls.write_poll_control(vcpu, 0), Ok(()));
    assert_eq!(calls.read_poll_control(vcpu), Ok(0));
    assert_eq!(calls.halt(vcpu), Halt::Sleep { may_poll: false });
    // Neither an error nor a write changes that it sleeps.
    let refused = calls.write_poll_control(vcpu, 3);
    assert!(matches!(refused, Err(MsrError::Reserved { value: 3, .. })));
    assert_eq!(calls.write_poll_control(vcpu, 1), Ok(()));
    assert_eq!(call(&mut calls, KICK_CPU, [0, 1, 0, 0]).action, HypercallAction::Wake(vcpu));
    let absent = calls.write_poll_control(VcpuId(2), 1);
    assert!(matches!(absent, Err(MsrError::NoSuchVcpu { .. })));
    let not_offered = with_vcpus(Features::PV_UNHALT, 1).read_poll_control(VcpuId(0));
    assert!(matches!(not_offered, Err(MsrError::NotOurs { .. })));
}

#[test]
fn a_restored_vcpu_s_first_halt_is_over_at_once() {
    let mut calls = with_vcpus(Features::ALL, 1);
    calls.restored(VcpuId(0));
    assert_eq!(calls.halt(VcpuId(0)), Halt::GoOn);
    assert_eq!(calls.halt(VcpuId(0)), Halt::Sleep { may_poll: true });
    assert!(calls.interrupted(VcpuId(0)));
    assert!(!calls.interrupted(VcpuId(0)), "it runs");
    assert_eq!(calls.halt(VcpuId(9)), Halt::GoOn, "it was never created");
}

proptest! {
    /// Against a model that keeps two numbers: a vCPU sleeps only where no kick came
    /// since its last halt, and is woken at most as often as it slept.
    #[test]
    fn no_kick_is_lost_and_a_flood_wakes_nobody_twice(
        steps in prop::collection::vec((0_u32..4, any::<bool>()), 0..200),
    ) {
        let mut calls = with_vcpus(Features::ALL, 3);
        let mut kicked: BTreeMap<u32, bool> = BTreeMap::new();
        let mut sleeps: BTreeMap<u32, bool> = BTreeMap::new();
        for (vcpu, kicks) in steps {
            let asleep = sleeps.get(&vcpu).copied().unwrap_or(false);
            if kicks {
                let woken = call(&mut calls, KICK_CPU, [0, vcpu.into(), 0, 0]).action;
                prop_assert_eq!(woken == HypercallAction::Wake(VcpuId(vcpu)), asleep);
                sleeps.insert(vcpu, false);
                kicked.insert(vcpu, !asleep && vcpu < 3);
            } else if !asleep {
                let goes_on = calls.halt(VcpuId(vcpu)) == Halt::GoOn;
                prop_assert_eq!(goes_on, vcpu >= 3 || kicked.get(&vcpu).copied().unwrap_or(false));
                kicked.insert(vcpu, false);
                sleeps.insert(vcpu, !goes_on);
            }
        }
    }
}
