use super::*;

const YEAR_2026: u64 = 1_795_000_000_000_000_000;

#[test]
fn hosts_clocks_tell_utc_and_others_must_be_told() {
    let no_tai = || 0;
    for name in ["KVM virtual PTP", "hyperv", "vmclock0", "ptp_vmw", "ena-ptp-05"] {
        assert_eq!(ahead_of_utc_s(PhcScale::ByName, name, no_tai), Ok(0), "{name}");
    }
    let card = "mlx5_ptp";
    assert!(ahead_of_utc_s(PhcScale::ByName, card, || 37).unwrap_err().contains("UTC or TAI"));
    assert!(ahead_of_utc_s(PhcScale::ByName, "", || 37).is_err());
    assert_eq!(ahead_of_utc_s(PhcScale::Utc, card, || 37), Ok(0));
    assert_eq!(ahead_of_utc_s(PhcScale::Tai, card, || 37), Ok(37));
    assert!(ahead_of_utc_s(PhcScale::Tai, card, no_tai).unwrap_err().contains("nobody has told"));
}

#[test]
fn hosts_clocks_are_found_by_their_names() {
    let class = tempfile::tempdir().unwrap();
    for (device, name) in [("ptp1", "hyperv\n"), ("ptp0", "KVM virtual PTP\n"), ("ptp2", "ice\n")] {
        std::fs::create_dir(class.path().join(device)).unwrap();
        std::fs::write(class.path().join(device).join("clock_name"), name).unwrap();
    }
    let found = [PathBuf::from("/dev/ptp0"), PathBuf::from("/dev/ptp1")];
    assert_eq!(hosts_clocks_below(class.path()), found);
    assert_eq!(hosts_clocks_below(Path::new("/no/such/class")), Vec::<PathBuf>::new());
    // udev's link to a device.
    let device = class.path().join("dev-ptp2");
    std::os::unix::fs::symlink(class.path().join("ptp2"), &device).unwrap();
    assert_eq!(clock_name(class.path(), &device).as_deref(), Some("ice"));
}

#[test]
fn the_kernels_readings_are_taken_and_ours_tell_a_clock_that_was_set() {
    let comparison = Comparison {
        device_ns: (0, 0),
        realtime_ns: (YEAR_2026 + 400, YEAR_2026 + 600),
        // 37 s for TAI, and 1 µs.
        device_at_realtime_ns: YEAR_2026 + 37_000_000_000 + 1500,
        raw_ns: None,
    };
    let moment = |passed: u64, set: u64| Moment {
        monotonic_ns: 70 + passed,
        realtime_ns: YEAR_2026 + passed + set,
    };
    let compare = |after| {
        let name = || "phc".to_owned();
        from_comparison(name, &comparison, 37_000_000_000, (moment(0, 0), after)).unwrap()
    };
    let expected = Offset { offset_ns: 1000, bound_ns: 100, at_monotonic_ns: 1070 };
    assert_eq!(compare(moment(1000, 0)), expected);
    assert_eq!(compare(moment(1000, 50)).bound_ns, 150);
}

#[test]
fn what_is_no_such_clock_is_told() {
    let opened = PhcTime::open(Path::new("/dev/null"), PhcScale::ByName);
    assert!(opened.unknown().unwrap().to_string().starts_with("not readable: /dev/null: "));
}
