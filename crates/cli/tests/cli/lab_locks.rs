//! Guests that halt until they are kicked, and some that abuse it: vCPUs that are not
//! there, floods, a lock that is never freed.

use std::time::{Duration, Instant};

use crate::need::Need;
use crate::program::alone;
use guest::contention::{ContentionCount, Contest};
use guest::layout::{DOORBELL, DOORBELL_HALT, KICK_CPU, SCHED_YIELD};
use guest::lock::Waiting;
use guest::request::GuestRequest;
use host::RestorePolicy;
use vmm::{ClockBackend, Machine, MachineError, Settings};

const KVM: &[Need] = &[Need::Kvm];

const HALT: GuestRequest = GuestRequest::PortWrite { port: DOORBELL, value: DOORBELL_HALT };
/// Far less than it would take, and far more than a wake-up does.
const NO_REPLY: Duration = Duration::from_secs(1);

fn kick(value: u8) -> GuestRequest {
    GuestRequest::PortWrite { port: KICK_CPU, value }
}

fn start(timeout: Duration) -> Machine {
    let settings = Settings { vcpus: 2, timeout, ..Settings::new(ClockBackend::Kernel) };
    let machine = Machine::start(&settings).expect("a machine");
    (0..2).for_each(|vcpu| _ = machine.discover(vcpu).expect("a guest that replies"));
    // The first halt is over at once, as of any vCPU that may have been restored.
    machine.request(1, HALT).expect("a halt that is over");
    machine
}

#[test]
fn lab_wakes_a_vcpu_that_is_kicked() {
    let Some(_program) = &alone(KVM) else { return };
    let machine = start(NO_REPLY);
    machine.send_request(1, HALT).expect("no other request");
    let late = machine.wait_for_reply(1, HALT);
    assert!(matches!(late, Err(MachineError::TimedOut { vcpu: 1, .. })), "it sleeps: {late:?}");
    for stranger in [0, 2, 31, 255] {
        machine.request(0, kick(stranger)).expect("a kick of nobody");
    }
    assert!(machine.wait_for_reply(1, HALT).is_err(), "others were kicked");
    machine.request(0, kick(1)).expect("a kick");
    machine.wait_for_reply(1, HALT).expect("it was kicked");
}

#[test]
fn lab_survives_floods_of_kicks() {
    let Some(_program) = &alone(KVM) else { return };
    let machine = start(NO_REPLY);
    for value in (0..=u8::MAX).cycle().take(2_000) {
        machine.request(0, kick(value)).expect("a kick");
        machine.request(0, GuestRequest::PortWrite { port: SCHED_YIELD, value }).expect("a yield");
    }
    // All of them are one kick.
    machine.request(1, HALT).expect("it was kicked before");
    machine.send_request(1, HALT).expect("no other request");
    assert!(machine.wait_for_reply(1, HALT).is_err(), "kicks were kept");
}

/// Whichever takes it holds it for ever, and the other waits: the machine ends
/// nevertheless.
#[test]
fn lab_stops_a_lock_that_is_never_freed() {
    let Some(_program) = &alone(KVM) else { return };
    for way in Waiting::ALL {
        let machine = start(NO_REPLY);
        let contest =
            Contest { way, spins: 10, hold: u64::MAX, rest: 0, length: 1, participants: 2 };
        for vcpu in 0..2 {
            machine.send_request(vcpu, GuestRequest::Contend(contest)).expect("no other request");
        }
        let late = machine.wait_for_reply(0, GuestRequest::Contend(contest));
        assert!(matches!(late, Err(MachineError::TimedOut { .. })), "{way:?}: {late:?}");
        let began = Instant::now();
        drop(machine);
        assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    }
}

#[test]
fn lab_restores_a_vcpu_that_halted() {
    let Some(_program) = &alone(KVM) else { return };
    let tsc = vmm::kvm::host_tsc().expect("KVM reports its TSC's frequency");
    let own = ClockBackend::Own(host::ClockSettings::new(host::ClockProvider::Kvm, tsc));
    let settings = Settings { vcpus: 2, ..Settings::new(own) };
    let machine = Machine::start(&settings).expect("a machine");
    machine.request(1, HALT).expect("a halt that is over");
    machine.send_request(1, HALT).expect("no other request");
    // So that it has halted.
    std::thread::sleep(NO_REPLY);
    let saved = machine.save().expect("a machine that can be saved");
    drop(machine);
    let (machine, _) = Machine::restore(&saved, RestorePolicy::Freeze).expect("a restored one");
    machine.wait_for_reply(1, HALT).expect("nobody knows any more that it halted");
    // A vCPU that is there anew counts as kicked once.
    machine.request(1, HALT).expect("once");
    machine.request(0, kick(1)).expect("a kick");
    machine.request(1, HALT).expect("it was kicked before");
}

/// Each way, with more vCPUs than CPUs: all of them get it, and those alone that halt are
/// kicked, no more often than they halt.
#[test]
fn lab_hands_a_lock_over() {
    let Some(_program) = &alone(KVM) else { return };
    const VCPUS: usize = 3;
    let cpu = linux::cpus::allowed().expect("this process's CPUs")[0];
    let settings = Settings {
        vcpus: VCPUS,
        affinity: vec![cpu],
        timeout: Duration::from_secs(60),
        ..Settings::new(ClockBackend::Kernel)
    };
    let machine = Machine::start(&settings).expect("a machine");
    for way in Waiting::ALL {
        machine.ram().shared().ready.store(0, std::sync::atomic::Ordering::Release);
        // Without a rest a vCPU that is interrupted holds it, and others find it taken.
        let (hold, rest, length) = (50_000, 0, 200_000_000);
        let contest = Contest { way, spins: 100, hold, rest, length, participants: VCPUS as u64 };
        let request = GuestRequest::Contend(contest);
        for vcpu in 0..VCPUS {
            machine.send_request(vcpu, request).expect("no other request");
        }
        let counted: Vec<_> = (0..VCPUS)
            .map(|vcpu| machine.wait_for_reply(vcpu, request).expect("it ends"))
            .map(|words| ContentionCount::decode(&words))
            .collect();
        assert!(counted.iter().all(|one| one.takes > 0), "{way:?}: {counted:?}");
        let sum = |pick: fn(&ContentionCount) -> u64| counted.iter().map(pick).sum::<u64>();
        // The first may have been the last of the way before.
        assert!(sum(|one| one.handovers) >= VCPUS as u64 - 1, "{way:?}: {counted:?}");
        match way {
            Waiting::Paravirtual => {
                let (kicks, halts) = (sum(|one| one.kicks), sum(|one| one.halts));
                assert!(0 < kicks && kicks <= halts, "{counted:?}");
            }
            _ => assert_eq!(sum(|one| one.kicks), 0, "{way:?}: {counted:?}"),
        }
    }
}
