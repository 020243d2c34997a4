//! The PIT's channel 2, which has no interrupt.

use crate::hardware::Hardware;

/// 105/88 MHz, as a fraction.
pub const NUMERATOR_HZ: u64 = 105_000_000;
/// See [`NUMERATOR_HZ`].
pub const DENOMINATOR: u64 = 88;

const CHANNEL: u16 = 0x42;
const COMMAND: u16 = 0x43;
const GATE: u16 = 0x61;
/// Channel 2, low byte then high, mode 2, binary.
const MODE_2: u8 = 0xb4;
const LATCH: u8 = 0x80;
/// Read-back of channel 2's status, without its count.
const STATUS: u8 = 0xe8;

/// Whether there is one: an absent device reads as ones, and a channel never has
/// all of its status bits set (there is no mode 7).
pub fn is_there(hardware: &impl Hardware) -> bool {
    hardware.port_write_8(COMMAND, STATUS);
    hardware.port_read_8(CHANNEL) != 0xff
}

/// Opens the gate, disables the speaker, and counts from 65536 down, again and
/// again. Returns whether there is one.
pub fn start(hardware: &impl Hardware) -> bool {
    let gate = hardware.port_read_8(GATE);
    hardware.port_write_8(GATE, gate & !2 | 1);
    hardware.port_write_8(COMMAND, MODE_2);
    hardware.port_write_8(CHANNEL, 0);
    hardware.port_write_8(CHANNEL, 0);
    is_there(hardware)
}

/// Elapsed ticks, modulo 65536: the count goes down.
pub fn read(hardware: &impl Hardware) -> u16 {
    hardware.port_write_8(COMMAND, LATCH);
    let low = hardware.port_read_8(CHANNEL);
    let high = hardware.port_read_8(CHANNEL);
    u16::from_le_bytes([low, high]).wrapping_neg()
}
