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

use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::madt::{EnabledStatus, IoApic, ProcessorLocalApic};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::{GenericAddress, Sdt};
use acpi_tables::xsdt::XSDT;
use acpi_tables::{Aml, AmlSink as _};

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
const OEM: [u8; 6] = *b"PARACH";
const OEM_TABLE: [u8; 8] = *b"RONLAB  ";
const HEADER_BYTES: u32 = 36;
/// MADT: there are two 8259 as well (5.2.12).
const PCAT_COMPAT: u32 = 1;
/// The pin of the system control interrupt, which nothing raises.
const SCI: u16 = 9;
/// FADT, IA-PC boot architecture (5.2.9.3): ISA devices, no VGA, no real-time clock.
const LEGACY_DEVICES: u16 = 1;
const NO_VGA: u16 = 1 << 2;
const NO_RTC: u16 = 1 << 5;

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
    let facs = place(bytes(&FACS::new()));
    let dsdt = Sdt::new(*b"DSDT", HEADER_BYTES, 6, OEM, OEM_TABLE, 1);
    let dsdt = place(dsdt.as_slice().to_vec());
    let fadt = place(bytes(&fadt(facs, dsdt, has_rtc).finalize()));
    let madt = place(madt(vcpus));
    let mut xsdt = XSDT::new(OEM, OEM_TABLE, 1);
    xsdt.add_entry(fadt);
    xsdt.add_entry(madt);
    xsdt.add_entry(place(hpet()));
    let xsdt = place(bytes(&xsdt));
    placed.push((RSDP, bytes(&Rsdp::new(OEM, xsdt))));
    placed
}

fn bytes(table: &dyn Aml) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.to_aml_bytes(&mut bytes);
    bytes
}

fn fadt(facs: u64, dsdt: u64, has_rtc: bool) -> FADTBuilder {
    // Buttons and the clock's alarm are not in the event registers.
    let flags = [Flags::Wbinvd, Flags::ProcC1, Flags::PwrButton, Flags::SlpButton, Flags::FixRtc];
    let fadt = FADTBuilder::new(OEM, OEM_TABLE, 1).dsdt_64(dsdt).firmware_ctrl_64(facs);
    let mut fadt = flags.into_iter().fold(fadt, FADTBuilder::flag);
    fadt.sci_int = SCI.into();
    fadt.pm1a_evt_blk = u32::from(PM1_EVENT_PORT).into();
    fadt.pm1_evt_len = PM1_EVENT_BYTES;
    fadt.pm1a_cnt_blk = u32::from(PM1_CONTROL_PORT).into();
    fadt.pm1_cnt_len = PM1_CONTROL_BYTES;
    fadt.pm_tmr_blk = u32::from(AcpiPmTimer::PORT).into();
    fadt.pm_tmr_len = 4;
    let absent = if has_rtc { NO_VGA } else { NO_VGA | NO_RTC };
    fadt.iapc_boot_arch = (LEGACY_DEVICES | absent).into();
    fadt
}

/// The processors, and the I/O interrupt controller, whose pins Linux takes by the numbers
/// of the ISA interrupts: so KVM connects them (arch/x86/kvm/irq.c, default_routing).
fn madt(vcpus: usize) -> Vec<u8> {
    let mut madt = Sdt::new(*b"APIC", HEADER_BYTES, 4, OEM, OEM_TABLE, 1);
    madt.append(LOCAL_APIC);
    madt.append(PCAT_COMPAT);
    let vcpus = vcpus as u8;
    for id in 0..vcpus {
        madt.vec(&bytes(&ProcessorLocalApic::new(id, id, EnabledStatus::Enabled)));
    }
    madt.vec(&bytes(&IoApic::new(vcpus, IO_APIC, 0)));
    madt.as_slice().to_vec()
}

/// The HPET's registers in memory (IA-PC HPET 1.0a, 3.2.4).
fn hpet() -> Vec<u8> {
    let mut hpet = Sdt::new(*b"HPET", HEADER_BYTES, 1, OEM, OEM_TABLE, 1);
    hpet.append(Hpet::ID);
    hpet.append(GenericAddress::mmio_address::<u64>(Hpet::ADDRESS));
    // Its number, the least count between two interrupts, and no page of its own.
    hpet.append_slice(&[0; 4]);
    hpet.as_slice().to_vec()
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
