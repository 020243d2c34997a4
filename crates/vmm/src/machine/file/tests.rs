//! A machine whose kernel is a few instructions, saved to bytes and restored from them.

use std::io::Write as _;
use std::time::{Duration, Instant};

use host::{ClockProvider, RestorePolicy};

use super::*;
use crate::Machine;

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
    for word in [0, KERNEL, KERNEL, all, all, PAGE] {
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

fn bytes(saved: &SavedMachine) -> Vec<u8> {
    let mut bytes = Vec::new();
    saved.write_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_guest_goes_on_twice_from_bytes_where_it_was() {
    let Ok(tsc) = crate::kvm::host_tsc() else {
        return writeln!(std::io::stderr(), "skipped: no /dev/kvm").unwrap();
    };
    let own = host::ClockSettings::new(ClockProvider::Kvm, tsc);
    let own = own.changed(|new| (new.never_back, new.sync_period) = (false, Some(Nanos(5))));
    let own = own.changed(|new| new.tsc_invariant = true);
    for backend in [ClockBackend::Kernel, ClockBackend::Own(own)] {
        let (saved, before) = saved(backend);
        let file = bytes(&saved);
        assert_eq!(bytes(&SavedMachine::read_from(file.as_slice()).unwrap()), file);
        for policy in [RestorePolicy::Freeze, RestorePolicy::Advance, RestorePolicy::Hold] {
            let read = SavedMachine::read_from(file.as_slice()).unwrap();
            // In the file and out of it the provider is as it was, at this host's rate.
            let here = crate::kvm::query_host(&crate::kvm::open().unwrap()).unwrap();
            for settings in [read.settings(here), saved.settings(here)] {
                if let ClockBackend::Own(found) = settings.backend {
                    assert_eq!(found.host_tsc, here.frequency);
                    let kept = found.changed(|new| {
                        (new.host_tsc, new.advertised_tsc) = (own.host_tsc, own.advertised_tsc);
                    });
                    assert_eq!(kept, own);
                }
            }
            assert_eq!(read.devices, saved.devices);
            let (machine, _) = Machine::restore(&read, policy).unwrap();
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

#[test]
fn what_is_no_saved_machine_is_refused_with_the_reason() {
    if crate::kvm::host_tsc().is_err() {
        return writeln!(std::io::stderr(), "skipped: no /dev/kvm").unwrap();
    }
    let (saved, _) = saved(ClockBackend::Kernel);
    let file = bytes(&saved);
    let refused =
        |bytes: &[u8]| SavedMachine::read_from(bytes).map(|_| ()).unwrap_err().to_string();
    for (length, within) in [
        (0, "in its first bytes"),
        (9, "before its version"),
        (100, "in its description"),
        (file.len() - 100, "in its memory"),
        (file.len() - 1, "before its checksum"),
    ] {
        let expected = format!("the saved machine is truncated {within}");
        assert_eq!(refused(&file[..length]), expected);
    }
    let changed = |at: usize, byte: u8| {
        let mut file = file.clone();
        file[at] = byte;
        refused(&file)
    };
    assert!(changed(0, b'X').contains("not those of a saved machine"));
    let future = "the saved machine has version 9; this program reads version 4";
    assert_eq!(changed(8, 9), future);
    assert!(changed(file.len() - 30, 0xee).contains("checksum"));
    let description = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    assert!(changed(16 + description + 7, 0x80).contains("bytes of memory at 0x8"));
    assert!(changed(15, 0xff).contains("bytes; at most 16777216 are possible"));
    assert!(changed(17, b'x').contains("description"));

    let text = String::from_utf8(file[16..16 + description].to_vec()).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rewritten = |changed: &serde_json::Value| {
        let json = serde_json::to_vec(changed).unwrap();
        let mut bytes = file[..12].to_vec();
        bytes.extend(u32::try_from(json.len()).unwrap().to_le_bytes());
        bytes.extend(json);
        bytes.extend(&file[16 + description..file.len() - 4]);
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        SavedMachine::read_from(&bytes[..]).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(rewritten(&all), Ok(()));
    let mut other = all.clone();
    other["provider"] = serde_json::Value::Null;
    assert!(rewritten(&other).is_ok(), "KVM's own clock has no settings");
    other.as_object_mut().unwrap().remove("timers");
    assert!(rewritten(&other).unwrap_err().contains("missing field `timers`"));
    let mut later = all;
    later["timers"]["hpet"] = serde_json::json!([0, u64::MAX]);
    assert!(rewritten(&later).unwrap_err().contains("the HPET started at"));

    // A host with other features: more than any has.
    let mut other: Description = serde_json::from_str(&text).unwrap();
    other.vcpus[0].give_all_features();
    let refused = Machine::restore(&other.saved().unwrap(), RestorePolicy::Freeze).map(|_| ());
    let why = refused.unwrap_err().to_string();
    assert!(why.starts_with("the guest was given CPUID leaf 0x"), "{why}");
}
