//! Hostile guests: the host reports what happened, and survives.

use std::time::{Duration, Instant};

use crate::need::Need;
use crate::program::{alone, shared};
use guest::hardware::Misbehaviour;
use guest::protocol::RECORDS;
use guest::request::{GuestRequest, RequestOutcome};
use host::{ClockProvider, RestorePolicy};
use vmm::guest_fault::GuestFaultCause;
use vmm::{ClockBackend, Machine, MachineError, Settings, kvm};

const KVM: &[Need] = &[Need::Kvm];

/// How long to wait for a guest's reply: far longer than one takes, even on a busy
/// machine; and if none is expected.
const TIMEOUT: Duration = Duration::from_secs(20);
const NO_REPLY: Duration = Duration::from_millis(300);

fn backends() -> [ClockBackend; 3] {
    let tsc = kvm::host_tsc().expect("KVM reports its TSC's frequency");
    let own = |kind| ClockBackend::Own(host::ClockSettings::new(kind, tsc));
    [ClockBackend::Kernel, own(ClockProvider::Kvm), own(ClockProvider::HyperV)]
}

fn start(backend: ClockBackend) -> Machine {
    let settings = Settings { vcpus: 2, timeout: TIMEOUT, ..Settings::new(backend) };
    let machine = Machine::start(&settings).expect("a machine");
    for vcpu in 0..2 {
        machine.discover(vcpu).expect("a guest that replies");
    }
    machine
}

/// Pseudo-random numbers, the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn lab_reports_how_a_guest_died() {
    let Some(_program) = &shared(KVM) else { return };
    for backend in backends() {
        for (how, cause) in [
            (Misbehaviour::TripleFault, GuestFaultCause::TripleFault),
            (Misbehaviour::HaltForever, GuestFaultCause::HaltedForever),
            (Misbehaviour::WildPointer, GuestFaultCause::Exception { vector: 14, code: 4 }),
            (Misbehaviour::UndefinedInstruction, GuestFaultCause::Exception { vector: 6, code: 0 }),
        ] {
            let machine = start(backend);
            match machine.request(1, GuestRequest::Misbehave(how)) {
                Err(MachineError::GuestFailed { vcpu: 1, guest_fault }) => {
                    assert_eq!(guest_fault.cause, cause, "{how:?}: {guest_fault}");
                    let image = guest::layout::IMAGE..guest::layout::IMAGE_END;
                    let is_in_image = image.contains(&guest_fault.registers.rip);
                    assert!(is_in_image || guest_fault.is_place_lost(), "{how:?}: {guest_fault}");
                }
                other => panic!("{how:?} on {backend:?}: {other:?}"),
            }
            // The other vCPU still runs, and the dead one stays dead.
            machine.discover(0).expect("vCPU 0 replies");
            let again = machine.request(1, GuestRequest::Discover);
            assert!(matches!(again, Err(MachineError::GuestFailed { vcpu: 1, .. })), "{again:?}");
        }
    }
}

#[test]
fn lab_stops_a_guest_that_never_ends() {
    let Some(_program) = &shared(KVM) else { return };
    for backend in backends() {
        let settings = Settings { vcpus: 2, timeout: NO_REPLY, ..Settings::new(backend) };
        let machine = Machine::start(&settings).expect("a machine");
        for vcpu in 0..2 {
            let spins = machine.request(vcpu, GuestRequest::Misbehave(Misbehaviour::SpinForever));
            match spins {
                Err(MachineError::TimedOut { vcpu: late, limit }) => {
                    assert_eq!((late, limit), (vcpu, NO_REPLY));
                }
                other => panic!("vCPU {vcpu} on {backend:?}: {other:?}"),
            }
        }
        // Its registers can still be read.
        machine.registers(0).expect("its registers");
        let began = Instant::now();
        drop(machine);
        assert!(began.elapsed() < TIMEOUT, "took {:?}", began.elapsed());
    }
}

#[test]
fn lab_is_not_flooded() {
    let Some(_program) = &shared(KVM) else { return };
    let machine = start(ClockBackend::Kernel);
    for _ in 0..3 {
        machine.request(0, GuestRequest::Misbehave(Misbehaviour::FloodRing)).expect("it replies");
        match machine.records(0) {
            Err(MachineError::Flooded { vcpu: 0, written, room: RECORDS }) => {
                assert!(written > RECORDS as u64, "{written}");
            }
            other => panic!("{other:?}"),
        }
    }
    machine.discover(0).expect("it still replies");
    assert!(machine.records(1).expect("vCPU 1 has not flooded").is_empty());
}

/// Whether the guest survived; the outcome is one of those that the host expects.
fn survived(request: GuestRequest, reply: Result<guest::protocol::Words, MachineError>) -> bool {
    match reply {
        Ok(_) | Err(MachineError::Declined { outcome: RequestOutcome::Refused, .. }) => true,
        Err(MachineError::GuestFailed { .. }) => false,
        Err(other) => panic!("{request:x?}: {other}"),
    }
}

/// Sends all of them; a guest that dies is replaced by another.
fn send_all(backend: ClockBackend, requests: impl IntoIterator<Item = GuestRequest>) {
    let mut machine = start(backend);
    for request in requests {
        if !survived(request, machine.request(0, request)) {
            machine.discover(1).expect("vCPU 1 replies");
            machine = start(backend);
        }
    }
    machine.discover(1).expect("vCPU 1 replies");
}

#[test]
fn lab_survives_wild_msrs() {
    let Some(_program) = &shared(KVM) else { return };
    const VALUES: [u64; 10] = [
        0,
        1,
        2,
        u64::MAX,
        1 << 63,
        0xa0_0003,
        0xa0_0fff,
        guest::layout::MEMORY_MIN - 1,
        guest::layout::MEMORY_MIN | 1,
        1 << 52 | 1,
    ];
    let clocks = (0x10..0x13)
        .chain([0x3b, 0x6e0, 0x80f, 0x832, 0x838, 0x83e])
        .chain(0x4b56_4d00..0x4b56_4d08)
        .chain(0x4000_0000..0x4000_0004)
        .chain(0x4000_0020..0x4000_0024)
        .chain(0x4000_0106..0x4000_0109);
    let writes = clocks
        .flat_map(|msr| VALUES.map(|value| GuestRequest::WriteMsr { msr, value }))
        .collect::<Vec<_>>();
    for backend in backends() {
        let mut numbers = Numbers(0x7061_7261_6368_726f);
        let wild = (0..100).map(|_| {
            let (msr, value) = (numbers.next() as u32, numbers.next());
            // Half of them in the range of real MSRs.
            let msr = if value & 2 == 0 { msr & 0x1fff } else { msr };
            GuestRequest::WriteMsr { msr, value }
        });
        send_all(backend, writes.iter().copied().chain(wild));
    }
}

#[test]
fn lab_survives_wild_ports() {
    let Some(_program) = &shared(KVM) else { return };
    const PORTS: [u16; 24] = [
        0, 0x20, 0x40, 0x41, 0x42, 0x43, 0x60, 0x61, 0x64, 0x70, 0x71, 0x80, 0xa0, 0x3f8, 0x3f9,
        0x3fb, 0x3fd, 0x600, 0x604, 0x608, 0xcf8, 0xcf9, 0xf00, 0xffff,
    ];
    let known = PORTS.iter().flat_map(|&port| {
        [0, 1, 2, 0x34, 0x7f, 0xfe, 0xff].map(|value| GuestRequest::PortWrite { port, value })
    });
    let mut numbers = Numbers(1);
    let wild = (0..300).map(|_| {
        let number = numbers.next();
        GuestRequest::PortWrite { port: number as u16, value: (number >> 16) as u8 }
    });
    send_all(backends()[1], known.chain(wild));
}

#[test]
fn lab_survives_wild_mmio() {
    let Some(_program) = &shared(KVM) else { return };
    const VALUES: [u64; 4] = [0, 1, 1 << 31 | 3, u64::MAX];
    let hpet = (0..0x400).step_by(8).map(|register| 0xfed0_0000 + register);
    let known = hpet.chain([0xfec0_0000, 0xfee0_0000, 0xfee0_0300, 0xc000_0000, 0xffff_fff8]);
    let known =
        known.flat_map(|address| VALUES.map(|value| GuestRequest::MmioWrite { address, value }));
    // Beyond what the guest maps, and not canonical.
    let beyond = [1 << 32, 1 << 40, 1 << 47, 1 << 63, u64::MAX - 7];
    let beyond = beyond.map(|address| GuestRequest::MmioWrite { address, value: 1 });
    send_all(backends()[1], known.chain(beyond));
}

/// A timer that ticks for ever, and one that never does.
#[test]
fn lab_survives_extreme_timers() {
    let Some(_program) = &shared(KVM) else { return };
    for backend in backends() {
        let settings = Settings { vcpus: 2, timeout: NO_REPLY, ..Settings::new(backend) };
        let machine = Machine::start(&settings).expect("a machine");
        for (vcpu, period_ns) in [(0, 1), (1, 0)] {
            let request = GuestRequest::Ticks { period_ns, cycles: u64::MAX };
            let ticked = machine.request(vcpu, request);
            let is_expected = matches!(ticked, Ok(_) | Err(MachineError::TimedOut { .. }));
            assert!(is_expected, "{period_ns} ns on {backend:?}: {ticked:?}");
        }
        assert!(machine.registers(0).is_ok(), "its thread replies");
    }
}

/// Pages over the guest itself: its page tables, its code, its mailbox. The host
/// writes them there, as the guest requested.
#[test]
fn lab_survives_pages_over_the_guest_itself() {
    let Some(_program) = &shared(KVM) else { return };
    use guest::layout::{IMAGE, SHARED, START_TABLES};
    use host::msr::{KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_WALL_CLOCK};
    for backend in backends() {
        for at in [START_TABLES, IMAGE, IMAGE + 0x1000, SHARED, SHARED + 0x40, SHARED + 0x80] {
            let settings = Settings { vcpus: 2, timeout: NO_REPLY, ..Settings::new(backend) };
            let machine = Machine::start(&settings).expect("a machine");
            let writes =
                [(KVM_SYSTEM_TIME, at | 1), (KVM_WALL_CLOCK, at), (KVM_STEAL_TIME, at | 1)];
            for (msr, value) in writes {
                // The host survives whatever the guest then does.
                let _ = machine.request(0, GuestRequest::WriteMsr { msr, value });
            }
            assert!(machine.registers(0).is_ok(), "its thread replies");
        }
        start(backend);
    }
}

/// The process's threads, file descriptors and kB of memory.
fn resources() -> [u64; 3] {
    let count = |folder| std::fs::read_dir(folder).expect("our own folder").count() as u64;
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
    [count("/proc/self/task"), count("/proc/self/fd"), memory.expect("a figure in kB")]
}

fn one_of_each_end() {
    for backend in backends() {
        for how in Misbehaviour::ALL {
            let settings = Settings { vcpus: 2, timeout: TIMEOUT, ..Settings::new(backend) };
            let machine = Machine::start(&settings).expect("a machine");
            machine.discover(1).expect("a guest that replies");
            let request = GuestRequest::Misbehave(how);
            machine.send_request(0, request).expect("a guest that waits");
            if how == Misbehaviour::SpinForever {
                std::thread::sleep(Duration::from_millis(10));
            } else {
                // It dies, or has flooded its ring: other tests cover that.
                let _ = machine.wait_for_reply(0, request);
            }
        }
    }
}

#[test]
fn lab_leaks_nothing() {
    let Some(_program) = &alone(KVM) else { return };
    const ROUNDS: u64 = 4;
    // First allocate what is kept for later machines (stacks, heap).
    one_of_each_end();
    let [threads, files, memory] = resources();
    (0..ROUNDS).for_each(|_| one_of_each_end());
    let began = Instant::now();
    // A joined thread may stay in /proc for a moment.
    while resources()[0] > threads && began.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let [threads_after, files_after, memory_after] = resources();
    assert_eq!((threads_after, files_after), (threads, files), "threads, files");
    // Leaking each machine's memory, some MB of it touched, would be more.
    let machines = ROUNDS * 3 * Misbehaviour::ALL.len() as u64;
    let more = memory_after.saturating_sub(memory);
    assert!(more < machines * 100, "{more} kB more after {machines} machines");
}

#[test]
fn lab_restores_a_dead_guest_dead() {
    let Some(_program) = &shared(KVM) else { return };
    for backend in backends() {
        let machine = Machine::start(&Settings::new(backend)).expect("a machine");
        machine.discover(0).expect("a guest that replies");
        let request = GuestRequest::Misbehave(Misbehaviour::TripleFault);
        let died = machine.request(0, request).expect_err("it dies of it").to_string();
        let saved = machine.save().expect("a dead one is saved");
        let (restored, _) =
            Machine::restore(&saved, RestorePolicy::Freeze).expect("and comes back");
        let again = restored.discover(0).expect_err("it stays dead").to_string();
        assert_eq!(again, died);
        assert_eq!(restored.exits(0), 0);
    }
}

#[test]
fn lab_refuses_invalid_machine_settings() {
    let Some(_program) = &shared(KVM) else { return };
    let refused = |settings: &Settings| Machine::start(settings).err().map(|e| e.to_string());
    let usual = Settings::new(ClockBackend::Kernel);
    let none = refused(&Settings { vcpus: 0, ..usual.clone() });
    assert_eq!(none.as_deref(), Some("0 vCPUs requested; a machine has 1 to 32"));
    let many = refused(&Settings { vcpus: 33, ..usual.clone() });
    assert_eq!(many.as_deref(), Some("33 vCPUs requested; a machine has 1 to 32"));
    let little = refused(&Settings { memory: 4096, ..usual.clone() });
    assert_eq!(
        little.as_deref(),
        Some("4096 bytes of guest memory requested; the guest needs 16777216")
    );
    let much = refused(&Settings { memory: u64::MAX, ..usual.clone() });
    assert!(much.is_some_and(|why| why.starts_with("18446744073709551615 bytes of guest memory")));
    let nowhere = refused(&Settings { affinity: vec![4_000_000], ..usual });
    assert!(nowhere.is_some_and(|why| why.contains("CPU 4000000")));
}
