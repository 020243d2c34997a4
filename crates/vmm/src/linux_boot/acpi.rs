//! ACPI tables of the least kind, by which a Linux finds PM timer and HPET (ACPI specification
//! 6.5; Linux: drivers/clocksource/acpi_pm.c, arch/x86/kernel/hpet.c).
//!
//! Without them Linux holds the TSC against its own ticks, and gives it up for those that
//! a busy host delivers late. The HPET is there before the TSC (x86_late_time_init,
//! arch/x86/kernel/time.c), the PM timer only with the file systems.
//!
//! Not of the hardware-reduced kind: with that Linux uses neither PIT nor 8259, by
//! which it measures the TSC where nothing tells the rate (arch/x86/kernel/acpi/boot.c,
//! acpi_generic_reduced_hw_init). The event registers that are asked for instead are
//! constants ([`crate::devices`]).

use crate::devices::{
    AcpiPmTimer, Hpet, PM1_CONTROL_BYTES, PM1_CONTROL_PORT, PM1_EVENT_BYTES, PM1_EVENT_PORT,
};

/// Where Linux looks for the pointer, from here to 1 MiB, each 16 bytes (5.2.5.1). The
/// memory map has it as reserved.
const RSDP: u64 = 0xe_0000;
const TABLES: u64 = 0xe_0040;
/// The tables begin on these.
const ALIGNED: u64 = 64;

const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
const OEM: &[u8; 6] = b"PARACH";
/// MADT: there are two 8259 as well (5.2.12).
const PCAT_COMPAT: u32 = 1;
/// The pin of the system control interrupt, which nothing raises.
const SCI: u8 = 9;
/// FADT, IA-PC boot architecture (5.2.9.3): ISA devices, no VGA, no real-time clock.
const LEGACY_DEVICES: u8 = 1;
const NO_VGA: u8 = 1 << 2;
const NO_RTC: u8 = 1 << 5;
/// FADT, flags (5.2.9, table 5.10): WBINVD and C1 work; buttons and the clock's alarm are not
/// in the event registers.
const FLAGS: u32 = 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6;

/// Where what of it goes.
pub(super) fn tables(vcpus: usize, has_rtc: bool) -> Vec<(u64, Vec<u8>)> {
    let mut placed = Vec::new();
    let mut next = TABLES;
    let mut place = |bytes: Vec<u8>| {
        let at = next;
        next = (at + bytes.len() as u64).next_multiple_of(ALIGNED);
        placed.push((at, bytes));
        at
    };
    // 64 bytes, version 1, and no checksum (5.2.10).
    let facs = place([b"FACS\x40\0\0\0".as_slice(), &[0; 24], &[1], &[0; 31]].concat());
    let dsdt = place(table(b"DSDT", 6, &[]));
    let fadt = place(fadt(facs, dsdt, has_rtc));
    let madt = place(madt(vcpus));
    let hpet = place(hpet());
    let xsdt = place(table(b"XSDT", 1, &[fadt, madt, hpet].map(u64::to_le_bytes).concat()));
    // The first 20 bytes have a sum of their own (5.2.5.3).
    let pointer = [b"RSD PTR \0".as_slice(), OEM, &[2, 0, 0, 0, 0]].concat();
    let pointer = [summed(pointer, 8), vec![36, 0, 0, 0], xsdt.to_le_bytes().to_vec()].concat();
    placed.push((RSDP, summed([pointer, vec![0; 4]].concat(), 32)));
    placed
}

/// With the byte at `at` that makes the sum of all 0.
fn summed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    bytes
}

/// A table behind its header (5.2.6), which names who made it.
fn table(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    let length = (36 + body.len() as u32).to_le_bytes();
    let maker = [OEM.as_slice(), b"RONLAB  \x01\0\0\0PARA\x01\0\0\0"].concat();
    summed([signature.as_slice(), &length, &[revision, 0], &maker, body].concat(), 9)
}

/// Registers by their ports (5.2.9): the 32-bit fields, which Linux takes where the others are 0.
fn fadt(facs: u64, dsdt: u64, has_rtc: bool) -> Vec<u8> {
    let absent = if has_rtc { NO_VGA } else { NO_VGA | NO_RTC };
    let mut fadt = [0; 276];
    for (at, bytes) in [
        (46, &[SCI][..]),
        (56, &PM1_EVENT_PORT.to_le_bytes()),
        (64, &PM1_CONTROL_PORT.to_le_bytes()),
        (76, &AcpiPmTimer::PORT.to_le_bytes()),
        (88, &[PM1_EVENT_BYTES, PM1_CONTROL_BYTES, 0, 4]),
        (109, &[LEGACY_DEVICES | absent]),
        (112, &FLAGS.to_le_bytes()),
        // Of version 6.5.
        (131, &[5]),
        (132, &facs.to_le_bytes()),
        (140, &dsdt.to_le_bytes()),
    ] {
        fadt[at..at + bytes.len()].copy_from_slice(bytes);
    }
    table(b"FACP", 6, &fadt[36..])
}

/// The processors, and the I/O interrupt controller, whose pins Linux takes by the numbers
/// of the ISA interrupts: so KVM connects them (arch/x86/kvm/irq.c, default_routing).
fn madt(vcpus: usize) -> Vec<u8> {
    let vcpus = vcpus as u8;
    let mut body = [LOCAL_APIC, PCAT_COMPAT].map(u32::to_le_bytes).concat();
    (0..vcpus).for_each(|id| body.extend([0, 8, id, id, 1, 0, 0, 0]));
    body.extend([&[1, 12, vcpus, 0][..], &IO_APIC.to_le_bytes(), &[0; 4]].concat());
    table(b"APIC", 4, &body)
}

/// The HPET's registers in memory (IA-PC HPET 1.0a, 3.2.4).
fn hpet() -> Vec<u8> {
    // Memory, of 64 bits, accessed by 64.
    let place = [&[0, 64, 0, 4][..], &Hpet::ADDRESS.to_le_bytes()].concat();
    // Its number, the least count between two interrupts, and no page of its own.
    table(b"HPET", 1, &[&Hpet::ID.to_le_bytes()[..], &place, &[0; 4]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
        (0..N).rev().fold(0, |value, index| value << 8 | u64::from(bytes[at + index]))
    }

    /// As Linux finds them: pointer, XSDT, FADT, DSDT; each of its length and sum.
    #[test]
    fn each_table_is_found_whole_below_the_page() {
        for vcpus in [1, 4] {
            let tables = tables(vcpus, false);
            let at = |address: u64| {
                let found = tables.iter().find(|(place, _)| *place == address);
                let bytes = &found.unwrap_or_else(|| panic!("nothing at {address:#x}")).1;
                let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
                assert_eq!((sum, number::<4>(bytes, 4)), (0, bytes.len() as u64), "{address:#x}");
                bytes
            };
            let (_, pointer) = tables.iter().find(|(place, _)| *place == RSDP).unwrap();
            assert_eq!(pointer.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
            let xsdt = at(number::<8>(pointer, 24));
            let (fadt, madt) = (at(number::<8>(xsdt, 36)), at(number::<8>(xsdt, 44)));
            assert_eq!((&fadt[..4], &madt[..4]), (&b"FACP"[..], &b"APIC"[..]));
            assert_eq!(number::<2>(fadt, 109), 0x25);
            assert_eq!((number::<4>(fadt, 76), fadt[91]), (0x608, 4), "PM timer");
            assert_eq!(madt.len(), 44 + 8 * vcpus + 12);
            let hpet = at(number::<8>(xsdt, 52));
            assert_eq!((&hpet[..4], hpet.len()), (&b"HPET"[..], 56));
            assert_eq!((number::<4>(hpet, 36), hpet[40]), (0x8086_2101, 0));
            assert_eq!(number::<8>(hpet, 44), 0xfed0_0000);
            assert_eq!(&at(number::<8>(fadt, 140))[..4], b"DSDT");
            let end = tables.iter().map(|(place, bytes)| place + bytes.len() as u64).max();
            assert!(end.unwrap() <= 0x10_0000);
        }
    }
}
