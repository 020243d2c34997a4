use super::*;
use crate::reference::phc::trace::replayed;

const YEAR_2026: u64 = 1_795_000_000_000_000_000;

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
        from_comparison(name, &comparison, 37, (moment(0, 0), after)).unwrap()
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

/// A network card's clock of `testdata/phc`, 37 s and 450 ns ahead of the
/// clock.
fn card(scale: PhcScale) -> PhcTime {
    let phc = replayed("read_around.txt");
    PhcTime { name: "/dev/ptp1".into(), clock_name: "mlx5_ptp".into(), phc, scale }
}

#[test]
fn a_card_that_counts_tai_is_taken_for_what_it_is_said_to_count() {
    let offset_ns = |scale| card(scale).compare().unwrap().offset_ns;
    assert_eq!(offset_ns(PhcScale::TaiBy(37)), 0);
    assert_eq!(offset_ns(PhcScale::Utc), 37_000_000_000);
    let untold = card(PhcScale::ByName);
    let why = untold.compare().unwrap_err().to_string();
    assert_eq!(why, "/dev/ptp1 (mlx5_ptp): its name does not tell whether it counts UTC or TAI");
    assert_eq!(untold.apparent().unwrap(), (37_000_000_000, Apparent::Tai));
}
