use proptest::prelude::*;

use super::*;

/// What chronyd 4.3 answered while its source was 50 ms ahead of this
/// machine's clock, and what chronyc made of another answer at that moment:
/// offset 0.050000515 s, residual frequency 0.010 ppm, skew 0.205 ppm, root
/// delay 1.548 µs, root dispersion 0.573 µs.
const RECORDED: [u8; BYTES] = {
    let mut reply = [0; BYTES];
    let parts: [(usize, &[u8]); 6] = [
        (0, &[6, 2, 0, 0, 0, 33, 0, 5]),
        (16, &SEQUENCE.to_be_bytes()),
        (28, &[127, 0, 0, 1, 127, 0, 0, 1]),
        (48, &[0, 1, 0, 0, 0, 2, 0, 0]),
        (56, &[0, 0, 0, 0, 0x6b, 0x01, 0x7a, 0xe4, 0x0d, 0xc9, 0x49, 0xd4]),
        (
            68,
            &[
                0xfa, 0xcc, 0xcd, 0x57, 0xd2, 0xe0, 0x3e, 0xad, 0xd4, 0xb9, 0x55, 0x62, 0xfd, 0x44,
                0x29, 0x7c, 0xf6, 0xa2, 0x48, 0xde, 0xfe, 0xd2, 0x5c, 0xf5, 0xdc, 0xcf, 0xc4, 0xe0,
                0xda, 0x99, 0xe9, 0x4c, 0xfc, 0x82, 0xf4, 0x47,
            ],
        ),
    ];
    let mut part = 0;
    while part < parts.len() {
        let (at, bytes) = parts[part];
        let mut index = 0;
        while index < bytes.len() {
            reply[at + index] = bytes[index];
            index += 1;
        }
        part += 1;
    }
    reply
};
const SEQUENCE: u32 = 0x6258_0927;

/// The recorded reply with some bytes changed.
fn changed(at: usize, bytes: &[u8]) -> Result<Tracking, NoAnswer> {
    let mut reply = RECORDED;
    reply[at..at + bytes.len()].copy_from_slice(bytes);
    parse(&reply, SEQUENCE)
}

#[test]
fn a_real_reply_is_read_as_chronyc_reads_it() {
    let parts = [68, 92, 96].map(|at| away_nanos(u32_at(&RECORDED, at)));
    assert_eq!(parts, [50_000_515, 1_549, 574]);
    let tracking = parse(&RECORDED, SEQUENCE).unwrap();
    assert_eq!(tracking.error_ns, Some(50_000_515 + 574 + 775));
    assert_eq!(tracking.growth_ppb, 1_000 + 11 + 205);
    assert_eq!(tracking.updated_ns, 1_795_259_108_231_295_444);
}

#[test]
fn a_request_is_chronycs() {
    let request = request(SEQUENCE);
    assert_eq!(request[..12], [6, 1, 0, 0, 0, 33, 0, 0, 0x62, 0x58, 0x09, 0x27]);
    assert!(request[12..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_daemon_that_follows_no_source_vouches_for_nothing() {
    let nobody = |tracking: Result<Tracking, NoAnswer>| tracking.unwrap().error_ns.is_none();
    assert!(nobody(changed(54, &[0, 3])), "leap status");
    assert!(nobody(changed(52, &[0, 0])), "stratum");
    assert!(nobody(changed(28, &[0; 4])), "no reference");
    assert!(nobody(changed(28, &LOCAL.to_be_bytes())), "its own clock");
    assert!(!nobody(changed(54, &[0, 1])), "a leap second is to come");
}

#[test]
fn what_is_no_answer_says_why() {
    assert_eq!(parse(&RECORDED[..103], SEQUENCE), Err(NoAnswer::Length(103)));
    assert_eq!(parse(&[], SEQUENCE), Err(NoAnswer::Length(0)));
    assert_eq!(parse(&RECORDED, 7), Err(NoAnswer::Sequence(SEQUENCE)));
    assert_eq!(changed(0, &[5]), Err(NoAnswer::Version(5, 2)));
    assert_eq!(changed(1, &[1]), Err(NoAnswer::Version(6, 1)));
    assert_eq!(changed(4, &[0, 34]), Err(NoAnswer::Refused(34, 5, 0)));
    // As it refuses a host that is not permitted to ask: status 2.
    assert_eq!(changed(6, &[0, 1, 0, 2]), Err(NoAnswer::Refused(33, 1, 2)));
}

#[test]
fn numbers_are_rounded_up_and_have_no_end() {
    // 1 · 2^(1 − 25) s, which is 59.6 ns; the same below 0; 1/2 · 2^-63 s.
    assert_eq!(away_nanos(1 << 25 | 1), 60);
    assert_eq!(away_nanos(1 << 25 | 0x1ff_ffff), 60);
    assert_eq!(away_nanos(64 << 25 | 1), 1);
    assert_eq!(away_nanos(0), 0);
    // 2^24 · 2^(63 − 25) s.
    assert_eq!(away_nanos(63 << 25 | 0x100_0000), u64::MAX);
    // 1 s: 2^23 · 2^(2 − 25).
    assert_eq!(away_nanos(2 << 25 | 0x80_0000), 1_000_000_000);
}

proptest! {
    #[test]
    fn a_number_is_what_floating_point_makes_of_it(number in any::<u32>()) {
        let exponent = (number.cast_signed() >> 25) - 25;
        let coefficient = (number << 7).cast_signed() >> 7;
        let ns = (f64::from(coefficient) * 2f64.powi(exponent)).abs() * 1e9;
        let told = away_nanos(number) as f64;
        if told < 1e18 {
            prop_assert!(told >= ns * (1.0 - 1e-12) && told <= ns * (1.0 + 1e-12) + 1.0);
        } else {
            prop_assert!(ns > 0.9e18);
        }
    }

    /// Whatever comes, it is refused or bounded by what is in it.
    #[test]
    fn any_datagram_is_read_or_refused(
        mut datagram in prop::collection::vec(any::<u8>(), 90..120),
        head in any::<bool>(),
        sequence in any::<u32>(),
    ) {
        if head {
            datagram[..18].copy_from_slice(&RECORDED[..18]);
            datagram[16..20].copy_from_slice(&sequence.to_be_bytes());
        }
        match parse(&datagram, sequence) {
            Ok(tracking) => {
                prop_assert_eq!(datagram.len(), BYTES);
                let offset = u32::from_be_bytes(datagram[68..72].try_into().unwrap());
                prop_assert!(tracking.error_ns.is_none_or(|ns| ns >= away_nanos(offset)));
            }
            Err(NoAnswer::Length(length)) => prop_assert_ne!(length, BYTES),
            Err(_) => prop_assert!(!head || datagram.len() != BYTES),
        }
    }
}
