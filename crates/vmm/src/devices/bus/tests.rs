use pvclock::Nanos;

use super::*;

fn port<const N: usize>(devices: &mut Devices, port: u16, now: &Moment) -> [u8; N] {
    let mut data = [0x5a; N];
    devices.port_read(port, &mut data, now);
    data
}

#[test]
fn the_pm_timer_is_read_whole_or_in_part_at_one_moment() {
    let mut devices = Devices::new(true, None);
    let now = Moment::from_ns(1_000_000_000);
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &now)), 3_579_545);
    assert_eq!(port::<2>(&mut devices, 0x609, &now), [0x9e, 0x36]);
    // A 24-bit counter wraps 2^24 ticks after 0, at 4.69 s.
    let wrap = Nanos(4_686_968_875);
    assert_eq!(
        u32::from_le_bytes(port(&mut devices, 0x608, &Moment::from_ns(wrap.0 - 1))),
        0xff_ffff
    );
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &Moment::from_ns(wrap.0))), 0);
    devices.port_write(0x608, &[1, 2, 3, 4]);
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &now)), 3_579_545, "read-only");
}

#[test]
fn ports_and_addresses_without_a_device_read_as_ones() {
    let mut devices = Devices::new(false, None);
    let now = Moment::from_ns(7);
    for absent in [0x40, 0x61, 0x70, 0x71, 0x80, 0xffff] {
        assert_eq!(port::<4>(&mut devices, absent, &now), [0xff; 4]);
        devices.port_write(absent, &[0]);
    }
    let mut data = [0; 8];
    devices.mmio_read(Hpet::ADDRESS - 8, &mut data, &now);
    assert_eq!(data, [0xff; 8]);
    devices.mmio_write(u64::MAX, &data, &now);
}

#[test]
fn acpi_s_registers_are_constants() {
    let mut devices = Devices::new(true, None);
    let now = Moment::from_ns(7);
    for _ in 0..2 {
        assert_eq!(port::<8>(&mut devices, 0x600, &now), [0, 0, 0x20, 0, 1, 0, 0xff, 0xff]);
        devices.port_write(0x600, &[0xff; 6]);
    }
}

#[test]
fn the_hpet_ends_where_its_registers_end() {
    let mut devices = Devices::new(true, None);
    let mut data = [0; 4];
    devices.mmio_read(Hpet::ADDRESS + 4, &mut data, &Moment::from_ns(0));
    assert_eq!(u32::from_le_bytes(data), Hpet::PERIOD_FS);
    devices.mmio_read(Hpet::ADDRESS + Hpet::BYTES - 4, &mut data, &Moment::from_ns(0));
    assert_eq!(data, [0; 4]);
    for address in [Hpet::ADDRESS - 1, Hpet::ADDRESS + 2, Hpet::ADDRESS + Hpet::BYTES] {
        devices.mmio_read(address, &mut data, &Moment::from_ns(0));
        assert_eq!(data, [0xff; 4], "{address:#x}");
    }
}

#[test]
fn the_serial_port_keeps_the_last_bytes() {
    let mut devices = Devices::new(true, None);
    let now = Moment::from_ns(0);
    devices.port_write(0x3f8, b"h");
    devices.port_write(0x3f8, b"i");
    assert_eq!(port::<1>(&mut devices, 0x3fd, &now), [0x60]);
    assert_eq!(devices.take_serial_output(), b"hi");
    for i in 0..=SerialPort::OUTPUT_BYTES {
        devices.port_write(0x3f8, &[i as u8]);
    }
    let output = devices.take_serial_output();
    assert_eq!(
        (output.len(), output[0], devices.save().serial.lost_bytes),
        (SerialPort::OUTPUT_BYTES, 1, 1)
    );
}

#[test]
fn a_serial_port_with_too_much_input_is_refused() {
    let saved = Devices::new(true, None).save();
    let restored = Devices::restore(&saved, None).expect("it was saved");
    assert_eq!(restored.save(), saved);
    let mut foreign = saved;
    foreign.serial.registers.in_buffer = vec![0; 65];
    assert!(Devices::restore(&foreign, None).is_none());
}
