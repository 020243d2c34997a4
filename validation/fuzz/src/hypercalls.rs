//! `host::hypercall` under a guest that calls anything, in any order.
//!
//! The bytes are what is offered, and then a program: an operation and its operands.
//! What is checked: no vCPU is woken that does not sleep, a kicked one never goes to
//! sleep, interrupts and yields name vCPUs that are there, and a call of a program of
//! the guest does nothing.

use std::collections::BTreeMap;

use host::VcpuId;
use host::hypercall::{
    Delivery, Features, Halt, HypercallAction, HypercallRegisters, HypercallResult, Hypercalls,
    KICK_CPU,
};

use crate::bytes::Bytes;

/// One more than the vCPUs that there are at first.
const VCPUS: u32 = 4;
const STEPS: usize = 1000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Guest {
    sleeps: bool,
    kicked: bool,
}

/// Runs the program.
pub(crate) fn hypercalls(data: &[u8]) {
    let mut bytes = Bytes(data);
    let offers = if bytes.number(1) & 1 == 0 { Features::ALL } else { Features::PV_UNHALT };
    let mut calls = Hypercalls::new(offers, bytes.number(1) & 1 == 0);
    let mut guests = BTreeMap::new();
    for vcpu in (0..VCPUS - 1).map(VcpuId) {
        calls.add(vcpu);
        guests.insert(vcpu, Guest::default());
    }
    for _ in 0..STEPS {
        let Some(operation) = bytes.next() else { break };
        let vcpu = VcpuId(bytes.number(1) as u32 % VCPUS);
        match operation % 8 {
            0..4 => call(&mut calls, &mut guests, vcpu, &mut bytes),
            4 => halt(&mut calls, &mut guests, vcpu),
            5 => {
                let woken = calls.interrupted(vcpu);
                let sleeps = guests.get_mut(&vcpu).is_some_and(|g| std::mem::take(&mut g.sleeps));
                assert_eq!(woken, sleeps, "{vcpu:?}");
            }
            6 => {
                let value = bytes.number(8);
                let written = calls.write_poll_control(vcpu, value);
                assert!(written.is_err() || calls.read_poll_control(vcpu) == Ok(value));
            }
            _ => {
                calls.restored(vcpu);
                guests.insert(vcpu, Guest { sleeps: false, kicked: true });
            }
        }
    }
}

fn halt(calls: &mut Hypercalls, guests: &mut BTreeMap<VcpuId, Guest>, vcpu: VcpuId) {
    let halt = calls.halt(vcpu);
    let Some(guest) = guests.get_mut(&vcpu) else { return assert_eq!(halt, Halt::GoOn) };
    assert_eq!(halt == Halt::GoOn, guest.kicked, "{vcpu:?}");
    *guest = Guest { sleeps: !guest.kicked, kicked: false };
}

fn call(
    calls: &mut Hypercalls,
    guests: &mut BTreeMap<VcpuId, Guest>,
    vcpu: VcpuId,
    bytes: &mut Bytes<'_>,
) {
    let [number, mode] = [bytes.number(1), bytes.number(1)];
    let arguments = std::array::from_fn(|_| {
        let width = bytes.number(1) as usize % 9;
        bytes.number(width)
    });
    let privilege = (mode >> 1 & 3) as u8;
    let registers = HypercallRegisters { number, arguments, is_64_bit: mode & 1 == 0, privilege };
    let HypercallResult { result, action } = calls.call(vcpu, &registers);
    assert!((-1000..=128).contains(&result), "{result}");
    assert!(privilege == 0 || (result, action) == (-1, HypercallAction::None));
    let keep = if registers.is_64_bit { u64::MAX } else { u64::from(u32::MAX) };
    let named = u32::try_from(arguments[1] & keep).ok().map(VcpuId);
    let kicked = named.filter(|_| number == KICK_CPU && privilege == 0);
    match action {
        HypercallAction::Wake(woken) => {
            let guest = guests.get_mut(&woken).expect("a vCPU that is there");
            assert!(kicked == Some(woken) && guest.sleeps, "{woken:?}");
            guest.sleeps = false;
        }
        HypercallAction::Interrupt(targets, delivery) => {
            assert!(targets.iter().all(|target| guests.contains_key(&target)));
            assert_eq!(targets.iter().count() as i64, result);
            assert!(!matches!(delivery, Delivery::Fixed(..16)));
        }
        HypercallAction::YieldTo(target) => assert!(target != vcpu && guests.contains_key(&target)),
        _ => {
            if let Some(guest) = kicked.and_then(|kicked| guests.get_mut(&kicked)) {
                assert!(!guest.sleeps, "a kick was lost");
                guest.kicked = true;
            }
        }
    }
}
