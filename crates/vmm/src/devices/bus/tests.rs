use super::*;

fn port<const N: usize>(devices: &mut Devices, port: u16, now: &Moment) -> [u8; N] {
    let mut data = [0x5a; N];
    devices.port_read(port, &mut data, now);
    data
}

#[test]
fn the_pm_timer_is_read_whole_or_in_part_at_one_moment() {
    let mut devices = Devices::new(&Present::ALL);
    let now = Moment::at(1_000_000_000);
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &now)), 3_579_545);
    assert_eq!(port::<2>(&mut devices, 0x609, &now), [0x9e, 0x36]);
    // A 24-bit counter wraps 2^24 ticks after 0, at 4.69 s.
    let wrap = Nanos(4_686_968_875);
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &Moment::at(wrap.0 - 1))), 0xff_ffff);
    assert_eq!(u32::from_le_bytes(port(&mut devices, 0x608, &Moment::at(wrap.0))), 0);
    let mut wide = Devices::new(&Present { pm_timer: Some(PmWidth::Bits32), ..Present::NONE });
    assert_eq!(u32::from_le_bytes(port(&mut wide, 0x608, &Moment::at(wrap.0))), 0x100_0000);
    devices.port_write(0x608, &[1, 2, 3, 4], &now);
    assert_eq!(devices.strays(), &Strays::default());
}

#[test]
fn what_is_not_there_reads_as_ones_and_is_counted() {
    let mut devices = Devices::new(&Present::NONE);
    let now = Moment::at(7);
    for absent in [0x40, 0x61, 0x70, 0x71, 0x608, 0x80, 0xffff] {
        assert_eq!(port::<4>(&mut devices, absent, &now), [0xff; 4]);
        devices.port_write(absent, &[0], &now);
    }
    let mut data = [0; 8];
    devices.mmio_read(Hpet::ADDRESS, &mut data, &now);
    assert_eq!(data, [0xff; 8]);
    devices.mmio_write(u64::MAX, &data, &now);
    let expected = Strays {
        port_reads: 7,
        port_writes: 7,
        mmio_reads: 1,
        mmio_writes: 1,
        last_port: Some(0xffff),
        last_address: Some(u64::MAX),
    };
    assert_eq!(devices.strays(), &expected);
    assert_eq!(devices.next_deadline(&now), None);
}

#[test]
fn the_hpet_ends_where_its_registers_end() {
    let mut devices = Devices::new(&Present::ALL);
    let mut data = [0; 4];
    devices.mmio_read(Hpet::ADDRESS + 4, &mut data, &Moment::at(0));
    assert_eq!(u32::from_le_bytes(data), Hpet::PERIOD_FS);
    devices.mmio_read(Hpet::ADDRESS + Hpet::BYTES - 4, &mut data, &Moment::at(0));
    assert_eq!((data, devices.strays().mmio_reads), ([0; 4], 0));
    for address in [Hpet::ADDRESS - 1, Hpet::ADDRESS + 2, Hpet::ADDRESS + Hpet::BYTES] {
        devices.mmio_read(address, &mut data, &Moment::at(0));
        assert_eq!(data, [0xff; 4], "{address:#x}");
    }
    assert_eq!(devices.strays().mmio_reads, 3);
}

#[test]
fn the_serial_port_keeps_the_last_words() {
    let mut devices = Devices::new(&Present::NONE);
    let now = Moment::at(0);
    devices.port_write(0x3f8, b"h", &now);
    devices.port_write(0x3f8, b"i", &now);
    assert_eq!(port::<1>(&mut devices, 0x3fd, &now), [0x60]);
    assert_eq!(devices.take_serial_output(), b"hi");
    for i in 0..=SerialPort::OUTPUT_BYTES {
        devices.port_write(0x3f8, &[i as u8], &now);
    }
    let output = devices.take_serial_output();
    assert_eq!(
        (output.len(), output[0], devices.serial_lost_bytes()),
        (SerialPort::OUTPUT_BYTES, 1, 1)
    );
}

#[test]
fn the_serial_port_interrupts_once_its_register_is_empty() {
    let mut devices = Devices::new(&Present::NONE);
    let now = Moment::at(5);
    devices.port_write(0x3f9, &[2], &now);
    assert_eq!(devices.next_deadline(&now), Some(Nanos(5)));
    let saved = devices.save();
    let mut restored = Devices::restore(&saved).expect("it was saved");
    assert_eq!(restored.save(), saved);
    for devices in [&mut devices, &mut restored] {
        assert_eq!(devices.due(&now), Some(Interrupt::Serial));
        assert_eq!(devices.due(&now), None);
        assert_eq!(devices.next_deadline(&now), None);
    }
    let mut foreign = saved;
    foreign.serial.registers.in_buffer = vec![0; 65];
    let refused = Devices::restore(&foreign).map(|_| ());
    assert_eq!(refused, Err(Unrestorable::SerialInput { bytes: 65 }));
}
