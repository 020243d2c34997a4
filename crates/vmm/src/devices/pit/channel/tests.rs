use super::*;

/// Programmed at tick 9, so that counting begins at tick 10.
fn programmed(mode: u8, count: u16) -> PitChannel {
    let mut channel = PitChannel::new(true);
    channel.control(0x30 | mode << 1, 9);
    let [low, high] = count.to_le_bytes();
    channel.write(low, 9);
    channel.write(high, 9);
    channel
}

fn read_word(channel: &mut PitChannel, tick: u64) -> u16 {
    u16::from_le_bytes([channel.read(tick), channel.read(tick)])
}

#[test]
fn terminal_count_is_reached_once_and_counted_past() {
    let mut channel = programmed(0, 100);
    for (tick, left) in [(9, 100), (10, 100), (11, 99), (110, 0), (111, 0xffff)] {
        assert_eq!(read_word(&mut channel, tick), left, "tick {tick}");
    }
    assert_eq!((channel.edges(109), channel.edges(u64::MAX)), (0, 1));
    let timer = programmed(0, 100);
    assert_eq!([109, 110, 111].map(|tick| timer.output(tick)), [false, true, true]);
}

#[test]
fn a_rate_is_one_tick_low_in_each_period() {
    let mut channel = programmed(2, 5);
    let seen: Vec<_> = (10..21).map(|tick| read_word(&mut channel, tick)).collect();
    assert_eq!(seen, [5, 4, 3, 2, 1, 5, 4, 3, 2, 1, 5]);
    let low: Vec<_> = (10..30).filter(|tick| !channel.output(*tick)).collect();
    assert_eq!(low, [14, 19, 24, 29]);
    assert_eq!((channel.edges(14), channel.edges(15), channel.edges(1_000_010)), (0, 1, 200_000));
}

/// The data sheet's description, tick by tick: an even count is loaded and
/// counts down by two until it would be 0, when the output changes and it is
/// loaded again; an odd one is loaded less one, and while the output is high it
/// stays at 0 for a tick.
fn square_wave_of_the_data_sheet(count: u16, ticks: usize) -> Vec<(u16, bool)> {
    let (mut left, mut high) = (count & !1, true);
    let mut seen = Vec::new();
    for _ in 0..ticks {
        seen.push((left, high));
        let last = if high && count % 2 == 1 { 0 } else { 2 };
        if left == last {
            (left, high) = (count & !1, !high);
        } else {
            left -= 2;
        }
    }
    seen
}

#[test]
fn a_square_wave_is_that_of_the_data_sheet() {
    for count in 2..20 {
        let mut channel = programmed(3, count);
        let seen: Vec<_> =
            (10..110).map(|tick| (read_word(&mut channel, tick), channel.output(tick))).collect();
        assert_eq!(seen, square_wave_of_the_data_sheet(count, 100), "count {count}");
        let rises = seen.windows(2).filter(|pair| !pair[0].1 && pair[1].1).count();
        assert_eq!(channel.edges(109), rises as u64, "count {count}");
    }
}

#[test]
fn a_count_of_zero_is_the_largest() {
    let edges = |channel: &PitChannel, tick| (channel.edges(tick - 1), channel.edges(tick));
    assert_eq!(edges(&programmed(2, 0), 10 + 65_536), (0, 1));
    assert_eq!(edges(&programmed(3, 1), 12), (0, 1), "there is no period of one tick");
}

#[test]
fn modes_that_no_guest_uses_count_like_mode_0_and_decimal_is_binary() {
    for mode in [1, 4, 5] {
        assert_eq!(programmed(mode, 100), programmed(0, 100));
    }
    let mut decimal = PitChannel::new(true);
    decimal.control(0x31, 9);
    decimal.write(0x00, 9);
    decimal.write(0x10, 9);
    assert_eq!(decimal, programmed(0, 0x1000));
}

#[test]
fn a_latch_holds_until_it_is_read() {
    let mut channel = programmed(2, 0x1234);
    channel.control(0x00, 10);
    channel.control(0x00, 20);
    assert_eq!(channel.read(30), 0x34);
    assert_eq!(channel.read(31), 0x12);
    assert_eq!(read_word(&mut channel, 14), 0x1230);
    channel.read_back(0xc2, 14);
    assert_eq!(channel.read(20), 0xb4, "high, a count, both bytes, mode 2");
    assert_eq!(read_word(&mut channel, 20), 0x1230);
    channel.control(0x36, 20);
    channel.read_back(0xe2, 20);
    assert_eq!(channel.read(20), 0xf6, "no count yet");
}

#[test]
fn one_byte_alone_when_asked_for() {
    for (word, ticks, read) in [(0x14, 0x12, 0x12), (0x24, 0x1200, 0x12)] {
        let mut channel = PitChannel::new(true);
        channel.control(word, 9);
        channel.write(0x12, 9);
        assert_eq!((channel.edges(9 + ticks), channel.edges(10 + ticks)), (0, 1));
        assert_eq!([channel.read(10), channel.read(10)], [read; 2]);
    }
}

#[test]
fn half_a_count_stops_mode_0_and_no_other() {
    for mode in [0, 2, 3] {
        let mut channel = programmed(mode, 100);
        let before = channel.run;
        channel.write(50, 20);
        assert_eq!(channel.run, if mode == 0 { ChannelRun::Idle } else { before }, "mode {mode}");
    }
}

#[test]
fn the_gate_stops_or_restarts() {
    let mut timer = programmed(0, 100);
    timer.set_gate(false, 50);
    assert_eq!(read_word(&mut timer, 1_000), 60);
    timer.set_gate(true, 1_000);
    assert_eq!((timer.edges(1_060), timer.edges(1_001 + 60)), (0, 1));
    let mut rate = programmed(2, 100);
    rate.set_gate(false, 50);
    assert!(rate.output(109), "high while it is stopped");
    rate.set_gate(true, 200);
    assert_eq!((rate.edges(300), rate.edges(301)), (0, 1), "and restarted");
    let mut waits = PitChannel::new(false);
    waits.set_gate(true, 5);
    assert_eq!((waits.run, waits.output(9)), (ChannelRun::Idle, false), "there is no count");
}
