//! Replies recorded from a chronyd 4.3 that ran without control of the clock (`-x`), and packets
//! written by hand after RFC 5905, figure 8.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// With `local stratum 8`, to a request with the number 0x0123456789abcdef that left at
/// 1795558294.055389241 s; the reply arrived at 1795558294.059170504 s.
const LOCAL: &str = "240800e600000000000000007f7f0101eeb08a150bc151c0\
    0123456789abcdefeeb08a160e314cefeeb08a160e388390";
const REQUEST: u64 = 0x0123_4567_89ab_cdef;
const LEFT_NS: i128 = 1_795_558_294_055_389_241;
const ARRIVED_NS: i128 = 1_795_558_294_059_170_504;

/// Without any source.
const WITHOUT_SOURCE: &str = "e40000e60001000000010000000000000000000000000000\
    0123456789abcdefeeb08a182dccb73deeb08a182e71a27c";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn local() -> Packet {
    Packet::decode(&bytes(LOCAL)).unwrap()
}

#[test]
fn chronyds_reply_is_read() {
    let packet = local();
    assert_eq!((packet.leap, packet.version, packet.mode), (0, 4, SERVER));
    assert_eq!((packet.stratum, packet.poll, packet.precision), (8, 0, -26));
    assert_eq!((packet.reference_id, packet.origin), ([127, 127, 1, 1], Timestamp(REQUEST)));
    let (receive, transmit) = (packet.receive.unix_ns(0), packet.transmit.unix_ns(0));
    assert!(LEFT_NS <= receive && receive <= transmit && transmit <= ARRIVED_NS, "{packet:?}");
    // 0x0e314cef and 0x0e388390 of 2^32.
    assert_eq!((receive % 1_000_000_000, transmit % 1_000_000_000), (55_439_766, 55_549_833));
    // 0x736a1 / 2^32 s.
    assert_eq!(packet.transmit.since_ns(packet.receive), 110_067);
    assert_eq!(packet.check(), Ok(()));
    assert_eq!(packet.encode()[..], bytes(LOCAL));
}

/// It answers with stratum 0, as in a kiss-o'-death, and no code.
#[test]
fn a_chronyd_without_a_source_is_not_synchronised() {
    let packet = Packet::decode(&bytes(WITHOUT_SOURCE)).unwrap();
    assert_eq!((packet.stratum, packet.kiss()), (0, None));
    assert_eq!(packet.check(), Err(UnusableReply::Unsynchronised));
}

#[test]
fn each_field_has_its_place() {
    let bytes: Vec<u8> = (0..48).collect();
    let packet = Packet {
        leap: 0,
        version: 0,
        mode: 0,
        stratum: 1,
        poll: 2,
        precision: 3,
        root_delay: 0x0405_0607,
        root_dispersion: 0x0809_0a0b,
        reference_id: [12, 13, 14, 15],
        reference: Timestamp(0x1011_1213_1415_1617),
        origin: Timestamp(0x1819_1a1b_1c1d_1e1f),
        receive: Timestamp(0x2021_2223_2425_2627),
        transmit: Timestamp(0x2829_2a2b_2c2d_2e2f),
    };
    assert_eq!(Packet::decode(&bytes), Some(packet));
    assert_eq!(packet.encode()[..], bytes);
    assert_eq!(Packet::decode(&bytes[..47]), None);
    // Leap 2, version 3, mode 5: 10 011 101.
    let first = Packet { leap: 2, version: 3, mode: 5, ..packet }.encode()[0];
    assert_eq!(first, 0b1001_1101);
    let request = Packet::request(REQUEST).encode();
    assert_eq!((request[0], &request[1..40]), (0x23, &[0; 39][..]));
    assert_eq!(request[40..], REQUEST.to_be_bytes());
}

#[test]
fn a_packet_of_no_use_is_refused_with_its_reason() {
    let refusal = |change: fn(&mut Packet)| {
        let mut packet = local();
        change(&mut packet);
        packet.check().unwrap_err()
    };
    assert_eq!(refusal(|packet| packet.mode = CLIENT), UnusableReply::Mode(3));
    let rate = |packet: &mut Packet| {
        (packet.leap, packet.stratum, packet.reference_id) = (3, 0, *b"RATE");
    };
    assert_eq!(refusal(rate), UnusableReply::Kiss(*b"RATE"));
    assert_eq!(refusal(|packet| packet.leap = 3), UnusableReply::Unsynchronised);
    assert_eq!(refusal(|packet| packet.version = 5), UnusableReply::Version(5));
    assert_eq!(refusal(|packet| packet.stratum = 16), UnusableReply::Stratum(16));
    let nowhere = |packet: &mut Packet| (packet.stratum, packet.reference_id) = (0, [0; 4]);
    assert_eq!(refusal(nowhere), UnusableReply::Stratum(0));
    assert_eq!(refusal(|packet| packet.transmit.0 = 0), UnusableReply::NoTime);
    // Half of 20 s, and 6 s.
    let far = |packet: &mut Packet| {
        (packet.root_delay, packet.root_dispersion) = (20 << 16, 6 << 16);
    };
    assert_eq!(refusal(far), UnusableReply::RootDistance { ms: 16_000 });
    assert_eq!(refusal(|packet| packet.reference.0 += 2 << 32), UnusableReply::ReferenceLater);
}

/// 1972-01-01 and the last second of the first era: RFC 5905, figure 4.
#[test]
fn times_of_rfc_5905() {
    for (ntp_s, unix_s) in [(2_272_060_800, 63_072_000), (u64::from(u32::MAX), 2_085_978_495)] {
        assert_eq!(Timestamp::from_unix_ns(unix_s * 1_000_000_000), Timestamp(ntp_s << 32));
    }
    let second_era = Timestamp::from_unix_ns(2_085_978_497_000_000_000);
    assert_eq!(second_era, Timestamp(1 << 32));
    assert_eq!(second_era.since_ns(Timestamp(u64::MAX << 32)), 2_000_000_000);
}

proptest! {
    /// In any era that a clock of ns since 1970 knows, and by a clock half an era off.
    #[test]
    fn a_time_comes_back_to_a_nanosecond(ns in any::<i64>(), off_s in -2_147_000_000..2_147_000_000_i64) {
        let near_ns = i128::from(ns) + i128::from(off_s) * 1_000_000_000;
        let read = Timestamp::from_unix_ns(ns).unix_ns(near_ns);
        prop_assert!((0..=1).contains(&(i128::from(ns) - read)), "{read}");
    }

    #[test]
    fn bytes_come_back(bytes in prop::collection::vec(any::<u8>(), LENGTH)) {
        let packet = Packet::decode(&bytes).unwrap();
        prop_assert_eq!(&packet.encode()[..], &bytes[..]);
    }
}
