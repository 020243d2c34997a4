use proptest::prelude::*;

use super::*;
use crate::adjtimex::{
    error_request, frequency_request, leap_requests, offset_request, slew_request, tick_request,
};

#[test]
fn a_step_back_has_its_microseconds_forward() {
    let parts = |by_ns| {
        (
            offset_request(nearest_us(by_ns)).time.tv_sec,
            offset_request(nearest_us(by_ns)).time.tv_usec,
        )
    };
    assert_eq!(parts(1_499), (0, 1));
    assert_eq!(parts(-1_499), (-1, 999_999));
    assert_eq!(parts(-499), (0, 0));
    assert_eq!(parts(-1_000_000_000), (-1, 0));
    assert_eq!(parts(2_500_000_000), (2, 500_000));
    assert_eq!(parts(i64::MIN), (-9_223_372_037, 145_224));
    assert_eq!(offset_request(5).modes, 0x100, "ADJ_NANO would stay");
}

#[test]
fn a_slew_is_to_the_nearest_microsecond() {
    for (by_ns, us) in [(0, 0), (499, 0), (500, 1), (-499, 0), (-501, -1), (-1_500_000, -1500)] {
        let request = slew_request(slew_us(by_ns).unwrap());
        assert_eq!((request.modes, request.offset), (0x8001, us), "{by_ns}");
    }
}

#[test]
fn an_error_clears_the_bit_of_an_unsynchronised_clock_alone() {
    // STA_PLL and STA_UNSYNC.
    let request = error_request(up_to_us(1_000_001), up_to_us(0), 0x41);
    assert_eq!((request.modes, request.status), (0x1c, 0x01));
    assert_eq!((request.maxerror, request.esterror), (1001, 0));
}

#[test]
fn a_leap_second_moves_its_two_bits_alone_after_the_pll_was_left() {
    // STA_PLL is 1, STA_INS 0x10, STA_DEL 0x20, STA_NANO 0x2000.
    for (leap, bits) in
        [(Some(LeapSecond::Inserted), 0x10), (Some(LeapSecond::Deleted), 0x20), (None, 0)]
    {
        for others in [0x2000, 0x2001] {
            let requests = leap_requests(leap, others | 0x20);
            assert_eq!(requests.map(|it| it.status), [0x2001, 0x2000, others | bits]);
            // ADJ_NANO as well.
            assert_eq!(requests.map(|it| it.modes), [0x2010; 3]);
            let in_us = leap_requests(leap, others & 1);
            assert_eq!(in_us.map(|it| it.modes), [0x10; 3]);
        }
    }
}

#[test]
fn a_frequency_is_in_the_kernels_units_and_within_its_limit() {
    // ADJ_FREQUENCY alone: the status and the tick are another's.
    for (ppb, units) in [
        (1000.0, 65_536),
        (-15.3, -1003),
        (0.0, 0),
        (9e9, 32_768_000),
        (-9e9, -32_768_000),
        (f64::NAN, 0),
    ] {
        let request = frequency_request(frequency_units(ppb));
        assert_eq!((request.modes, request.freq), (0x2, units), "{ppb}");
    }
}

#[test]
fn a_tick_of_another_length_is_part_of_the_frequency() {
    let found = adjtimex::read().unwrap();
    for (tick_us, frequency, ppb) in
        [(10_000, 65_536, 1000.0), (10_001, -65_536, 99_000.0), (9_000, 0, -1e8)]
    {
        let found = KernelDiscipline { tick_us, frequency, ..found };
        assert_eq!(steered_ppb(&found), ppb);
    }
    // ADJ_TICK and ADJ_FREQUENCY.
    let request = tick_request(-7);
    assert_eq!((request.modes, request.tick, request.freq), (0x4002, 10_000, -7));
}

#[test]
fn a_slew_beyond_the_largest_is_refused() {
    for by_ns in [LARGEST_SLEW_NS + 1, -LARGEST_SLEW_NS - 1, i64::MAX, i64::MIN] {
        assert!(matches!(slew_us(by_ns), Err(SetError::TooLarge { .. })), "{by_ns}");
    }
}

#[test]
fn permission_is_a_bit_and_the_first_namespace() {
    let status = |mask: &str| format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{mask}\n");
    assert!(permitted(&status("000001ffffffffff"), false).is_ok());
    assert!(permitted(&status("0000000002000000"), false).is_ok());
    let why = |status: &str, own| permitted(status, own).unwrap_err().to_string();
    let lacks = "this process lacks the capability CAP_SYS_TIME";
    // What Docker leaves to root.
    assert_eq!(why(&status("00000000a80425fb"), false), lacks);
    assert_eq!(why(&status("0000000000000000"), true), lacks);
    assert!(why(&status("000001ffffffffff"), true).contains("user namespace of its own"));
    assert!(
        why("CapEff: yes\n", false).starts_with("cannot read the line CapEff in /proc/self/status")
    );
    assert!(why("", false).starts_with("cannot read the line CapEff in /proc/self/status"));
}

#[test]
fn this_process_may_set_the_clock_or_may_not() {
    let status = std::fs::read_to_string(STATUS).unwrap();
    let has_it = permitted(&status, false).is_ok();
    match may_set() {
        Ok(()) => assert!(has_it),
        Err(NoPermission::NoCapability) => assert!(!has_it),
        Err(NoPermission::UserNamespace) => assert!(has_it),
        Err(NoPermission::Sandbox(error)) => {
            assert!(has_it && error.raw_os_error() != Some(libc::EINVAL), "{error}");
        }
        Err(NoPermission::Unreadable(error)) => panic!("{error}"),
    }
}

/// The kernel refuses a tick of no length after the permission alone.
#[test]
fn the_permission_is_checked_without_a_change() {
    let found = || adjtimex::read().unwrap().tick_us;
    let before = found();
    let status = std::fs::read_to_string(STATUS).unwrap();
    if has_capability(&status) == Some(false) {
        assert_eq!(adjtimex::check_permission().unwrap_err().raw_os_error(), Some(libc::EPERM));
    } else {
        let _ = adjtimex::check_permission();
    }
    assert_eq!(found(), before);
}

proptest! {
    /// `timekeeping_validate_timex` takes 0 to 999 999 µs.
    #[test]
    fn every_step_is_one_that_the_kernel_takes(by_ns in any::<i64>()) {
        let time = offset_request(nearest_us(by_ns)).time;
        prop_assert!((0..1_000_000).contains(&time.tv_usec));
        let back_ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_usec) * 1000;
        prop_assert!((back_ns - i128::from(by_ns)).abs() <= 500 || by_ns > i64::MAX - 500);
    }
}

/// That it reports a set is tested where the clock may be set: in a
/// virtual machine.
#[test]
fn a_clock_that_was_not_set_reports_none() {
    assert!(!ClockSet::new().unwrap().was_set());
}
