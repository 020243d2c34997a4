use super::*;

fn read(hpet: &Hpet, offset: u64, ns: u64) -> u64 {
    let mut data = [0; 8];
    assert!(hpet.read(offset, &mut data, &Moment::from_ns(ns)));
    u64::from_le_bytes(data)
}

fn read_half(hpet: &Hpet, offset: u64, ns: u64) -> u32 {
    let mut data = [0; 4];
    assert!(hpet.read(offset, &mut data, &Moment::from_ns(ns)));
    u32::from_le_bytes(data)
}

fn write(hpet: &mut Hpet, offset: u64, value: u64, ns: u64) {
    hpet.write(offset, &value.to_le_bytes(), &Moment::from_ns(ns));
}

#[test]
fn its_period_is_told_and_kept() {
    let mut hpet = Hpet::default();
    let capabilities = read(&hpet, CAPABILITIES, 0);
    assert_eq!(capabilities >> 32, 10_000_000, "fs a tick");
    assert_eq!(capabilities >> 8 & 0x1f, 1, "the last comparator's number");
    assert_eq!(capabilities >> 13 & 1, 1, "the counter is 64 bits wide");
    assert_eq!(capabilities >> 15 & 1, 0, "no legacy routing: no timer of a kernel");
    write(&mut hpet, CONFIGURATION, ENABLED, 5);
    for (ns, ticks) in [(5, 0), (14, 0), (15, 1), (1_000_000_005, 100_000_000)] {
        assert_eq!(read(&hpet, MAIN_COUNTER, ns), ticks, "at {ns} ns");
    }
}

#[test]
fn halted_it_stands_still_and_can_be_written() {
    let mut hpet = Hpet::default();
    assert_eq!(read(&hpet, MAIN_COUNTER, 1_000_000), 0);
    write(&mut hpet, MAIN_COUNTER, 0x1_ffff_fffe, 1_000_000);
    write(&mut hpet, CONFIGURATION, 3, 2_000_000);
    assert_eq!(read(&hpet, CONFIGURATION, 2_000_000), ENABLED, "no legacy routing");
    write(&mut hpet, MAIN_COUNTER, 7, 2_000_020);
    assert_eq!(read(&hpet, MAIN_COUNTER, 2_000_020), 0x2_0000_0000, "running: not written");
    write(&mut hpet, CONFIGURATION, 0, 2_000_030);
    assert_eq!(read(&hpet, MAIN_COUNTER, 9_000_000), 0x2_0000_0001);
}

#[test]
fn each_half_is_read_and_written_alone() {
    let mut hpet = Hpet::default();
    for (offset, half) in [(MAIN_COUNTER, 0xffff_ffff_u32), (MAIN_COUNTER + 4, 0x1234)] {
        hpet.write(offset, &half.to_le_bytes(), &Moment::from_ns(0));
        assert_eq!(read_half(&hpet, offset, 0), half);
    }
    assert_eq!(read(&hpet, MAIN_COUNTER, 0), 0x1234_ffff_ffff);
    write(&mut hpet, CONFIGURATION, ENABLED, 0);
    assert_eq!(read_half(&hpet, MAIN_COUNTER, 10), 0);
    assert_eq!(read_half(&hpet, MAIN_COUNTER + 4, 10), 0x1235);
}

#[test]
fn other_widths_and_alignments_are_ignored() {
    let mut hpet = Hpet::default();
    let before = hpet;
    for (offset, bytes) in [(0, 1), (0, 2), (0xf0, 3), (0xf4, 8), (0xf2, 4), (0, 0), (0, 16)] {
        let mut data = vec![0; bytes];
        assert!(!hpet.read(offset, &mut data, &Moment::from_ns(0)), "{bytes} at {offset:#x}");
        hpet.write(offset, &vec![0xff; bytes], &Moment::from_ns(0));
        assert_eq!(hpet, before, "{bytes} at {offset:#x}");
    }
    write(&mut hpet, 0x100, u64::MAX, 0);
    assert_eq!(read(&hpet, 0x100, 0), 0, "there is no comparator to route");
}
