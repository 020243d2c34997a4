//! ACPI's event and control registers (ACPI specification 6.5, 4.8.3) of a machine
//! without events, which a Linux with ACPI asks for: constants, and writes change nothing.

/// The first port of the status and enable registers, and how many they have.
pub(crate) const PM1_EVENT_PORT: u16 = 0x600;
pub(crate) const PM1_EVENT_BYTES: u8 = 4;
/// Of the control register.
pub(crate) const PM1_CONTROL_PORT: u16 = 0x604;
pub(crate) const PM1_CONTROL_BYTES: u8 = 2;

/// No status; GBL_EN, which Linux enables and reads again (acpi_enable_event,
/// drivers/acpi/acpica/evxfevnt.c); SCI_EN: ACPI is on.
const REGISTERS: [u8; 6] = [0, 0, 1 << 5, 0, 1, 0];

/// The byte at a port, if it is one of these.
pub(super) fn read(port: u16) -> Option<u8> {
    REGISTERS.get(usize::from(port.checked_sub(PM1_EVENT_PORT)?)).copied()
}
