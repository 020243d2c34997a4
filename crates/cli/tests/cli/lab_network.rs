//! The lab's network card on a real KVM: each way to wait gets its replies, at the counts
//! that it stands for.

use std::time::Duration;

use crate::need::Need;
use crate::program::alone;
use guest::layout::NETWORK_REGISTERS;
use guest::network::{Flow, PINGS_MAX, PacketCount, Wait};
use guest::request::{GuestRequest, RequestOutcome};
use vmm::{ClockBackend, Machine, MachineError, Settings};

const KVM: &[Need] = &[Need::Kvm];

const PLAIN: Flow =
    Flow { wait: Wait::Halt, event_index: false, pings: 50, in_flight: 1, batch: 1 };

/// One for each of its pings. Where the host takes the guest's CPU, a reply may be there
/// before the guest waits for it, and the card may be at work before it is notified: a guest
/// with a CPU has at least half of them.
const MOST: u64 = 50;
const LEAST: u64 = 25;

/// The delay of a reply.
const DELAY: Duration = Duration::from_micros(30);

/// Where `least` holds as well, the guest had its CPU.
fn expect_most(least: u64, counts: &[u64], counted: &PacketCount) {
    assert!(counts.iter().all(|count| (least..=MOST).contains(count)), "{counted:?}");
}

fn start(network: Option<Duration>) -> Machine {
    let settings = Settings { network, ..Settings::new(ClockBackend::Kernel) };
    let machine = Machine::start(&settings).expect("a machine");
    machine.discover(0).expect("a guest that replies");
    machine
}

fn ping(machine: &Machine, flow: Flow) -> PacketCount {
    let reply = machine.request(0, GuestRequest::Ping(flow)).expect("replies");
    let counted = PacketCount::decode(&reply);
    assert_eq!((counted.replies, counted.strange), (flow.pings, 0), "{flow:?}");
    let times = machine.records(0).expect("times").into_iter().flatten();
    assert_eq!(times.filter(|took| *took > 0).count() as u64, flow.pings);
    counted
}

#[test]
fn lab_pings_whatever_the_guest_waits_by() {
    let Some(_program) = &alone(KVM) else { return };
    pings(0);
}

#[test]
#[ignore = "nightly: timing"]
fn lab_pings_cost_one_exit_each() {
    let Some(_program) = &alone(KVM) else { return };
    pings(LEAST);
}

fn pings(least: u64) {
    let machine = start(Some(DELAY));
    for wait in [Wait::Halt, Wait::Busy, Wait::ReadMsr, Wait::Hypercall] {
        let counted = ping(&machine, Flow { wait, ..PLAIN });
        let PacketCount { notifications, interrupts, exits, .. } = counted;
        expect_most(least, &[notifications, interrupts], &counted);
        // A guest that never leaves its CPU makes none.
        if wait != Wait::Busy || exits > 0 {
            expect_most(least, &[exits.min(MOST)], &counted);
        }
    }
    let counted = ping(&machine, Flow { wait: Wait::Poll, ..PLAIN });
    expect_most(least, &[counted.notifications], &counted);
    assert_eq!((counted.interrupts, counted.exits), (0, 0));
    machine.poll_network(true);
    let counted = ping(&machine, Flow { wait: Wait::Poll, ..PLAIN });
    assert_eq!((counted.notifications, counted.interrupts, counted.exits), (0, 0, 0));
    let counted = ping(&machine, PLAIN);
    assert_eq!(counted.notifications, 0, "{counted:?}");
    expect_most(least, &[counted.interrupts], &counted);
    machine.poll_network(false);
    let many = Flow { pings: PINGS_MAX as u64, in_flight: 64, ..PLAIN };
    let by_index = ping(&machine, Flow { event_index: true, ..many });
    // A thread of the card that waits for a CPU is notified more often.
    if least > 0 {
        assert!(by_index.notifications <= many.pings / 10, "{by_index:?}");
    }
    let batches = ping(&machine, Flow { batch: 32, ..many });
    assert!(batches.notifications <= many.pings / 32 + 1, "{batches:?}");
    // Where KVM counts, it counts exits.
    assert!(machine.counts(0).is_none_or(|counts| counts["exits"] > 0));
    // Where it was copied, and the ping before each request with it.
    let card = machine.network().expect("a card");
    assert_eq!((card.sent, card.received, card.dropped), (card.received, card.copies() / 2, 0));
}

#[test]
fn lab_survives_a_guest_that_breaks_its_card() {
    let Some(_program) = &alone(KVM) else { return };
    let machine = start(Some(Duration::from_micros(30)));
    // Notifications of a card that is not set up, and registers of a wrong width.
    for offset in (0..0x200).step_by(8).cycle().take(500) {
        let address = NETWORK_REGISTERS + offset;
        machine.request(0, GuestRequest::MmioWrite { address, value: u64::MAX }).expect("a write");
    }
    ping(&machine, PLAIN);
    for flow in [
        Flow { pings: 0, ..PLAIN },
        Flow { pings: PINGS_MAX as u64 + 1, ..PLAIN },
        Flow { in_flight: 65, ..PLAIN },
    ] {
        let refused = machine.request(0, GuestRequest::Ping(flow));
        assert!(matches!(
            refused,
            Err(MachineError::Declined { outcome: RequestOutcome::NotUnderstood, .. })
        ));
    }
    assert!(matches!(machine.save(), Err(MachineError::Unsaveable { .. })));
    let refused = start(None).request(0, GuestRequest::Ping(PLAIN));
    let none =
        matches!(refused, Err(MachineError::Declined { outcome: RequestOutcome::NoDevice, .. }));
    assert!(none, "no card: {refused:?}");
}
