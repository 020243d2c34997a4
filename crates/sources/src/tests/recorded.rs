//! Datagrams recorded from a chronyd 4.3 that ran without control of the clock
//! (`-x`), and what `chronyc -c tracking` printed at the same time.

use std::net::IpAddr;

use crate::wire::chronyd::{
    ChronydRequest, ReplyError, ReplyStatus, Tracking, TrackingLeap, acknowledgement, tracking,
};
use proptest::prelude::*;

/// Before its first measurement.
const FRESH: &str = "\
    0602000000210005000000000000000001020304000000000000000000000000\
    0000000000000000000000000000000000000000000000030000000000000000\
    0000000000000000000000000000000000000000000000000000000004800000\
    0480000000000000";

/// With a SOCK reference clock that was 50 ms ahead:
/// `50524348,PRCH,1,1795323294.543590643,0.050000001,0.000000000,0.000000000,\
/// 0.000,0.000,0.000,0.000000001,0.000001303,1.0,Normal`.
const FED: &str = "\
    0602000000210005000000000000000001020304000000000000000050524348\
    000000000000000000000000000000000000000000010000000000006b02759e\
    206688f3facccccd88cf848e88cf848eb284ed6bae833b0edc8637bec889705f\
    dcad7af40480148f";

/// With that chronyd as its server:
/// `7F000001,127.0.0.1,2,1795323297.867784190,0.049998228,0.000000913,\
/// 0.000003442,-0.202,0.050,5.196,0.000025363,0.000022488,1.0,Normal`.
const SERVER: &str = "\
    06020000002100050000000000000000deadbeef00000000000000007f000001\
    7f0000010000000000000000000000000001000000020000000000006b0275a1\
    33b955fefacccaf0daf52349dee6f85bff31438ffacb8c4508a642a5e4d4c22d\
    e4bc41dc0480d185";

const MAKESTEP_OVER_UDP: &str = "06020000002b00010002000000000000000000090000000000000000";
const MAKESTEP_FAILED: &str = "06020000002b00010001000000000000000000090000000000000000";
const RESET_DONE: &str = "060200000042000100000000000000000000000a0000000000000000";
const NO_SERVER: &str = "060200000003000100040000000000000000000b0000000000000000";
const UNKNOWN_COMMAND: &str = "060200000063000100030000000000000000000c0000000000000000";
const OTHER_VERSION: &str = "060200000021000100120000000000000000000c0000000000000000";

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn server() -> Vec<u8> {
    bytes(SERVER)
}

/// The recorded reply with some bytes changed.
fn changed(at: usize, with: &[u8]) -> Result<Tracking, ReplyError> {
    let mut reply = server();
    reply[at..at + with.len()].copy_from_slice(with);
    tracking(&reply, 0xdead_beef)
}

/// Compares a reply with what chronyc printed a moment later, when the offset
/// and the root dispersion had changed by some nanoseconds.
fn assert_printed(it: &Tracking, expected: [&str; 9]) {
    let digits = [9, 9, 9, 3, 3, 3, 9, 9, 1];
    for (index, number) in numbers(it).iter().enumerate() {
        if let 0 | 7 = index {
            let expected: f64 = expected[index].parse().unwrap();
            assert!((number.value() - expected).abs() < 1e-7, "{index}: {}", number.value());
        } else {
            let digits = digits[index];
            assert_eq!(format!("{:.digits$}", number.value()), expected[index], "{index}");
        }
    }
}

fn numbers(it: &Tracking) -> [crate::wire::chronyd::Float; 9] {
    [
        it.system_offset,
        it.last_offset,
        it.rms_offset,
        it.frequency,
        it.residual_frequency,
        it.skew,
        it.root_delay,
        it.root_dispersion,
        it.update_interval,
    ]
}

#[test]
fn a_tracking_reply_has_the_figures_that_chronyc_prints() {
    let it = tracking(&server(), 0xdead_beef).unwrap();
    assert_eq!(it.reference_id, 0x7f00_0001);
    assert_eq!(it.address, Some(IpAddr::from([127, 0, 0, 1])));
    assert_eq!((it.stratum, it.leap), (2, TrackingLeap::Normal));
    assert_eq!(it.updated, (1_795_323_297, 867_784_190));
    let [offset, last, rms] = ["0.049998228", "0.000000913", "0.000003442"];
    let [delay, dispersion] = ["0.000025363", "0.000022488"];
    let printed = [offset, last, rms, "-0.202", "0.050", "5.196", delay, dispersion, "1.0"];
    assert_printed(&it, printed);
    assert!(it.is_synchronised());
}

#[test]
fn a_reference_clock_has_a_name_and_no_address() {
    let it = tracking(&bytes(FED), 0x0102_0304).unwrap();
    assert_eq!(it.reference_id.to_be_bytes(), *b"PRCH");
    assert_eq!((it.address, it.stratum), (None, 1));
    let [offset, zero, frequency] = ["0.050000001", "0.000000000", "0.000"];
    let [delay, dispersion] = ["0.000000001", "0.000001303"];
    let ppm = [frequency; 3];
    let printed = [offset, zero, zero, ppm[0], ppm[1], ppm[2], delay, dispersion, "1.0"];
    assert_printed(&it, printed);
}

#[test]
fn an_ipv6_address_is_read_whole() {
    let mut address = [0; 18];
    address[0] = 0xfe;
    address[1] = 0x80;
    address[15] = 7;
    address[17] = 2;
    let it = changed(32, &address).unwrap();
    assert_eq!(it.address, Some("fe80::7".parse().unwrap()));
}

#[test]
fn the_error_bound_is_offset_dispersion_and_half_the_delay() {
    let bound = tracking(&server(), 0xdead_beef).unwrap().error_bound();
    // 49.998225 ms, 22.442 µs and half of 25.364 µs, each rounded up.
    assert_eq!(bound.error_ns, Some(49_998_225 + 22_442 + 12_682));
    assert_eq!(bound.growth_ppb, 1_000 + 50 + 5_196);
    assert_eq!(bound.updated_ns, 1_795_323_297_867_784_190);
    // A time of 32 bits has a mark in its upper half.
    let marked = changed(56, &[0x7f, 0xff, 0xff, 0xff]).unwrap().error_bound();
    assert_eq!(marked.updated_ns, bound.updated_ns);
}

#[test]
fn a_daemon_without_a_source_bounds_nothing() {
    let it = tracking(&bytes(FRESH), 0x0102_0304).unwrap();
    assert_eq!((it.leap, it.stratum), (TrackingLeap::NotSynchronised, 0));
    assert!(!it.is_synchronised() && it.error_bound().error_ns.is_none());
    let unbounded = |it: Result<Tracking, ReplyError>| it.unwrap().error_bound().error_ns.is_none();
    assert!(unbounded(changed(54, &[0, 3])), "leap status");
    assert!(unbounded(changed(52, &[0, 0])), "stratum");
    assert!(unbounded(changed(28, &[0; 4])), "no reference");
    assert!(unbounded(changed(28, &[127, 127, 1, 1])), "its own clock");
    assert!(!unbounded(changed(54, &[0, 1])), "a leap second is announced");
}

#[test]
fn requests_are_those_of_chronyc() {
    let request = ChronydRequest::Tracking.encode(0x6258_0927);
    assert_eq!(request[..12], [6, 1, 0, 0, 0, 33, 0, 0, 0x62, 0x58, 0x09, 0x27]);
    assert!(request[12..].iter().all(|&byte| byte == 0));
    assert_eq!(request.len(), 104);
    let lengths =
        [ChronydRequest::MakeStep, ChronydRequest::ResetSources].map(|it| it.encode(1).len());
    assert_eq!(lengths, [28, 28]);
    let burst = ChronydRequest::Burst { good: 3, max: 5 }.encode(1);
    assert_eq!((burst.len(), burst[5]), (68, 3));
    assert_eq!(burst[60..], [0, 0, 0, 3, 0, 0, 0, 5]);
}

#[test]
fn refusals_are_distinguished() {
    let step = |hex| acknowledgement(&bytes(hex), ChronydRequest::MakeStep, 9);
    assert_eq!(step(MAKESTEP_OVER_UDP), Err(ReplyError::Refused(ReplyStatus::NotAuthorised)));
    assert_eq!(step(MAKESTEP_FAILED), Err(ReplyError::Refused(ReplyStatus::Failed)));
    assert_eq!(acknowledgement(&bytes(RESET_DONE), ChronydRequest::ResetSources, 10), Ok(()));
    let burst = acknowledgement(&bytes(NO_SERVER), ChronydRequest::Burst { good: 3, max: 5 }, 11);
    assert_eq!(burst, Err(ReplyError::Refused(ReplyStatus::NoSuchSource)));
    let other = tracking(&bytes(OTHER_VERSION), 12);
    assert_eq!(other, Err(ReplyError::Refused(ReplyStatus::Other(18))));
    let unknown = tracking(&bytes(UNKNOWN_COMMAND), 12);
    assert_eq!(unknown, Err(ReplyError::Command(99)));
    assert_eq!(changed(8, &[0, 3]), Err(ReplyError::Refused(ReplyStatus::Invalid)));
    assert_eq!(changed(8, &[0, 6]), Err(ReplyError::Refused(ReplyStatus::NotEnabled)));
}

#[test]
fn a_datagram_that_is_not_the_reply_is_refused_with_its_reason() {
    let length = |found, expected| Err(ReplyError::Length { found, expected });
    assert_eq!(tracking(&server()[..103], 0xdead_beef), length(103, 104));
    assert_eq!(tracking(&[], 0xdead_beef), length(0, 28));
    assert_eq!(tracking(&server(), 7), Err(ReplyError::Sequence(0xdead_beef)));
    assert_eq!(changed(0, &[5]), Err(ReplyError::Version(5)));
    assert_eq!(changed(1, &[1]), Err(ReplyError::PacketType(1)));
    assert_eq!(changed(4, &[0, 34]), Err(ReplyError::Command(34)));
    assert_eq!(changed(6, &[0, 1]), Err(ReplyError::Format(1)));
    assert!(ReplyError::Sequence(7).is_unrelated() && !ReplyError::Version(5).is_unrelated());
}

proptest! {
    /// Any datagram is parsed or refused, and a bound covers the offset.
    #[test]
    fn any_datagram_is_parsed_or_refused(
        mut datagram in prop::collection::vec(any::<u8>(), 20..120),
        head in any::<bool>(),
        sequence in any::<u32>(),
    ) {
        if head {
            datagram[..16].copy_from_slice(&server()[..16]);
            datagram[16..20].copy_from_slice(&sequence.to_be_bytes());
        }
        match tracking(&datagram, sequence) {
            Ok(it) => {
                prop_assert_eq!(datagram.len(), crate::wire::chronyd::MAX_REPLY_BYTES);
                let bound = it.error_bound();
                prop_assert!(bound.growth_ppb >= 1_000);
                let offset = it.system_offset.abs_billionths();
                prop_assert!(bound.error_ns.is_none_or(|ns| ns >= offset));
            }
            Err(ReplyError::Length { found, .. }) => prop_assert_eq!(found, datagram.len()),
            Err(_) => prop_assert!(!head),
        }
    }
}
