//! Guests that mean no good: the host says what happened, and is whole.

use std::time::{Duration, Instant};

use e2e::{Case, Need, Program};
use guest::hardware::Misbehaviour;
use guest::protocol::RECORDS;
use guest::request::{Outcome, Request};
use host::{Kind, Policy};
use vmm::guest_fault::Cause;
use vmm::{Backend, Machine, MachineError, Settings, kvm};

const KVM: &[Need] = &[Need::Kvm];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "lab_restores_a_dead_guest_dead",
        needs: KVM,
        run: lab_restores_a_dead_guest_dead,
    },
    Case { name: "lab_tells_how_a_guest_died", needs: KVM, run: lab_tells_how_a_guest_died },
    Case {
        name: "lab_ends_a_guest_that_never_does",
        needs: KVM,
        run: lab_ends_a_guest_that_never_does,
    },
    Case { name: "lab_is_not_flooded", needs: KVM, run: lab_is_not_flooded },
    Case { name: "lab_outlives_wild_msrs", needs: KVM, run: lab_outlives_wild_msrs },
    Case { name: "lab_outlives_wild_ports", needs: KVM, run: lab_outlives_wild_ports },
    Case { name: "lab_outlives_wild_mmio", needs: KVM, run: lab_outlives_wild_mmio },
    Case { name: "lab_outlives_absurd_timers", needs: KVM, run: lab_outlives_absurd_timers },
    Case {
        name: "lab_outlives_pages_on_the_guest_itself",
        needs: KVM,
        run: lab_outlives_pages_on_the_guest_itself,
    },
    Case { name: "lab_leaks_nothing", needs: KVM, run: lab_leaks_nothing },
    Case {
        name: "lab_refuses_settings_that_make_no_machine",
        needs: KVM,
        run: lab_refuses_settings,
    },
];

/// How long a guest's answer is waited for: far longer than one takes, even
/// on a busy machine, but where none is to come.
const PATIENCE: Duration = Duration::from_secs(20);
const NO_ANSWER: Duration = Duration::from_millis(300);

fn backends() -> [Backend; 3] {
    let tsc = kvm::host_tsc().expect("KVM says its TSC's rate");
    let own = |kind| Backend::Own(host::Settings::new(kind, tsc));
    [Backend::Kernel, own(Kind::Kvm), own(Kind::HyperV)]
}

fn start(backend: Backend) -> Machine {
    let settings = Settings { vcpus: 2, patience: PATIENCE, ..Settings::new(backend) };
    let machine = Machine::start(&settings).expect("a machine");
    for vcpu in 0..2 {
        machine.discover(vcpu).expect("a guest that answers");
    }
    machine
}

/// Random numbers that are the same each time (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn lab_tells_how_a_guest_died(_: &Program) {
    for backend in backends() {
        for (how, cause) in [
            (Misbehaviour::TripleFault, Cause::TripleFault),
            (Misbehaviour::HaltForever, Cause::HaltedForever),
            (Misbehaviour::WildPointer, Cause::Exception { vector: 14, code: 4 }),
            (Misbehaviour::UndefinedInstruction, Cause::Exception { vector: 6, code: 0 }),
        ] {
            let machine = start(backend);
            match machine.ask(1, Request::Misbehave(how)) {
                Err(MachineError::Died { vcpu: 1, guest_fault }) => {
                    assert_eq!(guest_fault.cause, cause, "{how:?}: {guest_fault}");
                    let rip = guest_fault.registers.rip;
                    let image = guest::layout::IMAGE..guest::layout::IMAGE_END;
                    assert!(image.contains(&rip), "{how:?}: {guest_fault}");
                }
                other => panic!("{how:?} on {backend:?}: {other:?}"),
            }
            // The other vCPU is well, and the dead one stays dead.
            machine.discover(0).expect("vCPU 0 answers");
            let again = machine.ask(1, Request::Discover);
            assert!(matches!(again, Err(MachineError::Died { vcpu: 1, .. })), "{again:?}");
        }
    }
}

fn lab_ends_a_guest_that_never_does(_: &Program) {
    for backend in backends() {
        let settings = Settings { vcpus: 2, patience: NO_ANSWER, ..Settings::new(backend) };
        let machine = Machine::start(&settings).expect("a machine");
        for vcpu in 0..2 {
            let spins = machine.ask(vcpu, Request::Misbehave(Misbehaviour::SpinForever));
            match spins {
                Err(MachineError::TimedOut { vcpu: late, limit }) => {
                    assert_eq!((late, limit), (vcpu, NO_ANSWER));
                }
                other => panic!("vCPU {vcpu} on {backend:?}: {other:?}"),
            }
        }
        // It is still looked into from outside.
        machine.call_vcpu(0, |vcpu| vcpu.get_regs()).expect("its thread").expect("its registers");
        let began = Instant::now();
        drop(machine);
        assert!(began.elapsed() < PATIENCE, "took {:?}", began.elapsed());
    }
}

fn lab_is_not_flooded(_: &Program) {
    let machine = start(Backend::Kernel);
    for _ in 0..3 {
        machine.ask(0, Request::Misbehave(Misbehaviour::FloodRing)).expect("it claims so");
        match machine.records(0) {
            Err(MachineError::Flooded { vcpu: 0, head, room: RECORDS, .. }) => {
                assert!(head > RECORDS, "{head}");
            }
            other => panic!("{other:?}"),
        }
    }
    machine.discover(0).expect("it answers nevertheless");
    assert!(machine.records(1).expect("vCPU 1 has not flooded").is_empty());
}

/// Whatever became of it, the answer is one of those that the host foresees.
fn foreseen(asked: Request, answer: Result<guest::protocol::Words, MachineError>) -> bool {
    match answer {
        Ok(_) | Err(MachineError::Declined { outcome: Outcome::Refused, .. }) => true,
        Err(MachineError::Died { .. }) => false,
        Err(other) => panic!("{asked:x?}: {other}"),
    }
}

/// Asks all of it; a guest that dies of it is followed by another.
fn ask_all(backend: Backend, requests: impl IntoIterator<Item = Request>) {
    let mut machine = start(backend);
    for request in requests {
        if !foreseen(request, machine.ask(0, request)) {
            machine.discover(1).expect("vCPU 1 answers");
            machine = start(backend);
        }
    }
    machine.discover(1).expect("vCPU 1 answers");
}

fn lab_outlives_wild_msrs(_: &Program) {
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
        .flat_map(|msr| VALUES.map(|value| Request::WriteMsr { msr, value }))
        .collect::<Vec<_>>();
    for backend in backends() {
        let mut numbers = Numbers(0x7061_7261_6368_726f);
        let wild = (0..100).map(|_| {
            let (msr, value) = (numbers.next() as u32, numbers.next());
            // Half of them where MSRs are.
            let msr = if value & 2 == 0 { msr & 0x1fff } else { msr };
            Request::WriteMsr { msr, value }
        });
        ask_all(backend, writes.iter().copied().chain(wild));
    }
}

fn lab_outlives_wild_ports(_: &Program) {
    const PORTS: [u16; 24] = [
        0, 0x20, 0x40, 0x41, 0x42, 0x43, 0x60, 0x61, 0x64, 0x70, 0x71, 0x80, 0xa0, 0x3f8, 0x3f9,
        0x3fb, 0x3fd, 0x600, 0x604, 0x608, 0xcf8, 0xcf9, 0xf00, 0xffff,
    ];
    let known = PORTS.iter().flat_map(|&port| {
        [0, 1, 2, 0x34, 0x7f, 0xfe, 0xff].map(|value| Request::PortWrite { port, value })
    });
    let mut numbers = Numbers(1);
    let wild = (0..300).map(|_| {
        let number = numbers.next();
        Request::PortWrite { port: number as u16, value: (number >> 16) as u8 }
    });
    ask_all(backends()[1], known.chain(wild));
}

fn lab_outlives_wild_mmio(_: &Program) {
    const VALUES: [u64; 4] = [0, 1, 1 << 31 | 3, u64::MAX];
    let hpet = (0..0x400).step_by(8).map(|register| 0xfed0_0000 + register);
    let known = hpet.chain([0xfec0_0000, 0xfee0_0000, 0xfee0_0300, 0xc000_0000, 0xffff_fff8]);
    let known = known.flat_map(|address| VALUES.map(|value| Request::MmioWrite { address, value }));
    // Beyond what the guest maps, and where no address is one.
    let beyond = [1 << 32, 1 << 40, 1 << 47, 1 << 63, u64::MAX - 7];
    let beyond = beyond.map(|address| Request::MmioWrite { address, value: 1 });
    ask_all(backends()[1], known.chain(beyond));
}

/// A timer that is never to come, and one that has come long ago.
fn lab_outlives_absurd_timers(_: &Program) {
    for backend in backends() {
        let settings = Settings { vcpus: 2, patience: NO_ANSWER, ..Settings::new(backend) };
        let machine = Machine::start(&settings).expect("a machine");
        for (vcpu, cycles) in [(0, 1 << 62), (1, u64::MAX)] {
            let slept = machine.ask(vcpu, Request::Sleep { cycles });
            let foreseen = matches!(slept, Ok(_) | Err(MachineError::TimedOut { .. }));
            assert!(foreseen, "{cycles} cycles on {backend:?}: {slept:?}");
        }
        assert!(machine.call_vcpu(0, |vcpu| vcpu.get_regs()).is_ok(), "its thread answers");
    }
}

/// Pages where the guest itself lies: its tables, its code, its mailbox. The
/// host writes them there, and the guest has what it asked for.
fn lab_outlives_pages_on_the_guest_itself(_: &Program) {
    use guest::layout::{IMAGE, SHARED, START_TABLES};
    use host::msr::{KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_WALL_CLOCK};
    for backend in backends() {
        for at in [START_TABLES, IMAGE, IMAGE + 0x1000, SHARED, SHARED + 0x40, SHARED + 0x80] {
            let settings = Settings { vcpus: 2, patience: NO_ANSWER, ..Settings::new(backend) };
            let machine = Machine::start(&settings).expect("a machine");
            let writes =
                [(KVM_SYSTEM_TIME, at | 1), (KVM_WALL_CLOCK, at), (KVM_STEAL_TIME, at | 1)];
            for (msr, value) in writes {
                // Whatever comes of it, one of the host's own answers does.
                let _ = machine.ask(0, Request::WriteMsr { msr, value });
            }
            assert!(machine.call_vcpu(0, |vcpu| vcpu.get_regs()).is_ok(), "its thread answers");
        }
        start(backend);
    }
}

/// What the process holds: threads, file descriptors, kB of memory.
fn held() -> [u64; 3] {
    let count = |folder| std::fs::read_dir(folder).expect("our own folder").count() as u64;
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
    [count("/proc/self/task"), count("/proc/self/fd"), memory.expect("a figure in kB")]
}

fn one_of_each_end() {
    for backend in backends() {
        for how in Misbehaviour::ALL {
            let settings = Settings { vcpus: 2, patience: PATIENCE, ..Settings::new(backend) };
            let machine = Machine::start(&settings).expect("a machine");
            machine.discover(1).expect("a guest that answers");
            let request = Request::Misbehave(how);
            machine.post(0, request).expect("a guest that waits");
            if how == Misbehaviour::SpinForever {
                std::thread::sleep(Duration::from_millis(10));
            } else {
                // It dies of it, or has flooded its ring: told elsewhere.
                let _ = machine.answer(0, request);
            }
        }
    }
}

fn lab_leaks_nothing(_: &Program) {
    const ROUNDS: u64 = 4;
    // What is kept for the next machine (stacks, the allocator's) is there.
    one_of_each_end();
    let [threads, files, memory] = held();
    (0..ROUNDS).for_each(|_| one_of_each_end());
    let began = Instant::now();
    // A joined thread may stand in /proc for a moment yet.
    while held()[0] > threads && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let [threads_after, files_after, memory_after] = held();
    assert_eq!((threads_after, files_after), (threads, files), "threads, files");
    // A machine's memory, some MB of it touched, kept each time would be more.
    let machines = ROUNDS * 3 * Misbehaviour::ALL.len() as u64;
    let more = memory_after.saturating_sub(memory);
    assert!(more < machines * 100, "{more} kB more after {machines} machines");
}

fn lab_restores_a_dead_guest_dead(_: &Program) {
    for backend in backends() {
        let machine = Machine::start(&Settings::new(backend)).expect("a machine");
        machine.discover(0).expect("a guest that answers");
        let request = Request::Misbehave(Misbehaviour::TripleFault);
        let died = machine.ask(0, request).expect_err("it dies of it").to_string();
        let saved = machine.save().expect("a dead one is saved");
        let (restored, _) = Machine::restore(&saved, Policy::Freeze).expect("and comes back");
        let asked = restored.discover(0).expect_err("it stays dead").to_string();
        assert_eq!(asked, died);
        assert_eq!(restored.exits(0), 0);
    }
}

fn lab_refuses_settings(_: &Program) {
    let refused = |settings: &Settings| Machine::start(settings).err().map(|e| e.to_string());
    let usual = Settings::new(Backend::Kernel);
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
