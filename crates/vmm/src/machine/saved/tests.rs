//! A machine whose kernel is a few instructions, saved and restored.

use std::io::Write as _;
use std::time::{Duration, Instant};

use host::{ClockProvider, RestorePolicy};

use super::*;
use crate::linux_boot::LinuxImage;

/// Where the kernel is, and where it counts.
const KERNEL: u64 = 0x10_0000;
const COUNTER: u64 = 0x20_0000;
/// It writes 0x40 to an MSR, and sends that and what it has counted, for ever.
const CODE: [u8; 36] = [
    0xb9, 0x82, 0x00, 0x00, 0xc0, // mov ecx, 0xc0000082
    0xb8, 0x40, 0x00, 0x00, 0x00, // mov eax, 0x40
    0x31, 0xd2, // xor edx, edx
    0x0f, 0x30, // wrmsr
    0x31, 0xdb, // xor ebx, ebx
    0x0f, 0x32, // again: rdmsr
    0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8
    0xff, 0xc3, // inc ebx
    0x89, 0x1c, 0x25, 0x00, 0x00, 0x20, 0x00, // mov [0x200000], ebx
    0x01, 0xd8, // add eax, ebx
    0xee, // out dx, al
    0xeb, 0xec, // jmp again
];

/// An ELF with one segment (elf(5)).
fn kernel() -> Arc<[u8]> {
    let (header, all) = (64_u64, (64 + 56 + CODE.len()) as u64);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [KERNEL + 64 + 56, header, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for word in [0, KERNEL, KERNEL, all, all, 4096] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(CODE);
    elf.into()
}

/// The next bytes that the guest sends.
fn sent(machine: &Machine) -> Vec<u8> {
    let (started, mut bytes) = (Instant::now(), Vec::new());
    while bytes.len() < 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", machine.guest_fault());
        bytes.extend(machine.serial());
        std::thread::sleep(Duration::from_millis(1));
    }
    bytes
}

fn saved(backend: ClockBackend) -> (SavedMachine, Vec<u8>) {
    let image = LinuxImage { kernel: kernel(), initrd: None, command_line: String::new() };
    let settings = Settings { vcpus: 2, memory: 32 << 20, ..Settings::linux(backend, image) };
    let machine = Machine::start(&settings).unwrap();
    let mut before = sent(&machine);
    machine.pause().unwrap();
    before.extend(machine.serial());
    let saved = machine.save().unwrap();
    (saved, before)
}

#[test]
fn a_guest_goes_on_twice_from_where_it_was() {
    let Ok(tsc) = crate::kvm::host_tsc() else {
        return writeln!(std::io::stderr(), "skipped: no /dev/kvm").unwrap();
    };
    let own = host::ClockSettings::new(ClockProvider::Kvm, tsc);
    let own = own.changed(|new| (new.never_back, new.sync_period) = (false, Some(Nanos(5))));
    let own = own.changed(|new| new.tsc_invariant = true);
    for backend in [ClockBackend::Kernel, ClockBackend::Own(own)] {
        let (saved, before) = saved(backend);
        for policy in [RestorePolicy::Freeze, RestorePolicy::Advance, RestorePolicy::Hold] {
            let (machine, _) = Machine::restore(&saved, policy).unwrap();
            let mut expected = *before.last().unwrap();
            for byte in sent(&machine) {
                expected = expected.wrapping_add(1);
                assert_eq!(byte, expected, "{backend:?}, {policy:?}");
            }
            machine.pause().unwrap();
            let counter = machine.ram().copy().unwrap()[COUNTER as usize];
            let last = machine.serial().last().copied().unwrap_or(expected);
            let ahead = counter.wrapping_add(0x40).wrapping_sub(last);
            assert!(ahead <= 1, "{counter} counted, {last} sent");
        }
    }
}
