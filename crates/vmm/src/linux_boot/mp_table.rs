//! Intel's MultiProcessor table (MP specification 1.4, chapter 4): the
//! processors and the I/O interrupt controller, for a kernel without ACPI.

/// APIC version 0x14, as KVM's.
const APIC_VERSION: u8 = 0x14;
pub(super) const LOCAL_APIC: u32 = 0xfee0_0000;
pub(super) const IO_APIC: u32 = 0xfec0_0000;
/// The ISA bus's interrupts; KVM connects each to the pin of its number
/// (Linux: arch/x86/kvm/irq.c, default_routing).
const ISA_INTERRUPTS: u8 = 16;
const ENABLED: u8 = 1;
const BOOT_PROCESSOR: u8 = 2;
/// The pointer is 16 bytes, the header of the table 44.
const POINTER_BYTES: usize = 16;
const HEADER_BYTES: usize = 44;
/// Local interrupt pins: the 8259's, and NMI.
const EXT_INT: u8 = 3;
const NMI: u8 = 1;
const ALL_APICS: u8 = 0xff;

/// The floating pointer at `address`, and the table right after it.
pub(super) fn table(address: u64, vcpus: usize) -> Vec<u8> {
    let vcpus = vcpus as u8;
    // Behind those of the processors.
    let io_apic_id = vcpus;
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for id in 0..vcpus {
        let flags = if id == 0 { ENABLED | BOOT_PROCESSOR } else { ENABLED };
        // Signature and feature flags: CPUID tells them.
        entries.push([&[0, id, APIC_VERSION, flags][..], &[0; 16]].concat());
    }
    entries.push([&[1, 0][..], b"ISA   "].concat());
    entries.push([&[2, io_apic_id, 0x11, ENABLED][..], &IO_APIC.to_le_bytes()].concat());
    // Type 3: kind INT, polarity and trigger of the bus; bus, interrupt, APIC, pin.
    entries.extend((0..ISA_INTERRUPTS).map(|irq| vec![3, 0, 0, 0, 0, irq, io_apic_id, irq]));
    for (pin, kind) in [(0, EXT_INT), (1, NMI)] {
        entries.push(vec![4, kind, 0, 0, 0, 0, ALL_APICS, pin]);
    }
    let body = entries.concat();
    let length = (HEADER_BYTES + body.len()) as u16;
    let mut header = [&b"PCMP"[..], &length.to_le_bytes(), &[4, 0]].concat();
    header.extend(b"PARACHRNLAB         ");
    header.extend([0; 6]);
    header.extend((entries.len() as u16).to_le_bytes());
    header.extend(LOCAL_APIC.to_le_bytes());
    header.extend([0; 4]);
    let mut table = [header, body].concat();
    table[7] = checksum(&table);
    let at = (address as u32) + POINTER_BYTES as u32;
    let mut pointer = [&b"_MP_"[..], &at.to_le_bytes(), &[1, 4, 0, 0, 0, 0, 0, 0]].concat();
    pointer[10] = checksum(&pointer);
    [pointer, table].concat()
}

/// What makes the sum of all bytes 0.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_zero_and_lengths_fit() {
        for vcpus in 1..=4 {
            let bytes = table(0x9_fc00, vcpus);
            let (pointer, table) = bytes.split_at(POINTER_BYTES);
            let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            assert_eq!((sum(pointer), sum(table)), (0, 0));
            assert_eq!(&pointer[4..8], 0x9_fc10u32.to_le_bytes());
            assert_eq!(usize::from(u16::from_le_bytes([table[4], table[5]])), table.len());
            // Processors of 20 bytes, and 20 entries of 8.
            assert_eq!(table.len(), 44 + 20 * vcpus + 8 * 20);
            assert_eq!(u16::from_le_bytes([table[34], table[35]]) as usize, vcpus + 20);
            // In the last KiB before the read-only memory of a PC.
            assert!(bytes.len() < 1024);
        }
    }
}
