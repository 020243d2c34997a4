use std::cell::Cell;
use std::io;

use libc::{ptp_clock_time, ptp_sys_offset_extended, ptp_sys_offset_precise};
use linux::phc::Device;
use pvclock::units::ClockPair;

use super::*;

const YEAR_2026: u64 = 1_795_000_000_000_000_000;

#[test]
fn hosts_clocks_are_found_by_their_names() {
    let class = tempfile::tempdir().unwrap();
    for (device, name) in [
        ("ptp1", "hyperv\n"),
        ("ptp0", "KVM virtual PTP\n"),
        ("ptp2", "ice\n"),
        ("ptp3", "Virtio PTP type 2/variant 0\n"),
    ] {
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

/// A reading of a device 37 s for TAI, and 1 µs, ahead of a clock that goes on by
/// 1000 ns meanwhile, and is set by `set_ns`.
fn compare(set_ns: u64) -> OffsetBound {
    let moment = |passed: u64, set_ns: u64| ClockPair {
        monotonic_ns: 70 + passed,
        realtime_ns: YEAR_2026 + passed + set_ns,
    };
    let stamps = Cell::new(0);
    let now = || match stamps.replace(1) {
        0 => moment(0, 0),
        _ => moment(1000, set_ns),
    };
    let (device, clock) = (YEAR_2026 + 37_000_000_000 + 1500, YEAR_2026);
    let card = card(PhcScale::TaiBy(37), [clock + 400, device, clock + 600]);
    card.read(now).unwrap().offset().unwrap()
}

#[test]
fn the_kernels_readings_are_taken_and_ours_show_a_clock_that_was_set() {
    let expected = OffsetBound { offset_ns: 1000, bound_ns: 100, at_monotonic_ns: 1070 };
    assert_eq!(compare(0), expected);
    assert_eq!(compare(50).bound_ns, 150);
}

/// EC2's states 20 µs or so, and the read alone took 100 ns.
#[test]
fn a_bound_that_the_driver_states_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("phc_error_bound");
    let card = || {
        let card = card(PhcScale::TaiBy(37), [YEAR_2026, YEAR_2026 + 37_000_000_000, YEAR_2026]);
        PhcSource { error_bound: Some(Reread::open(&file).unwrap()), ..card }
    };
    let now = || ClockPair { monotonic_ns: 70, realtime_ns: YEAR_2026 };
    std::fs::write(&file, "21500\n").unwrap();
    let open = card();
    assert_eq!(open.read(now).unwrap().offset().unwrap().bound_ns, 21_500);
    std::fs::write(&file, "99\n").unwrap();
    assert_eq!(open.read(now).unwrap().offset().unwrap().bound_ns, 99, "it changes meanwhile");
    for text in ["", "soon", "-1"] {
        std::fs::write(&file, text).unwrap();
        assert!(card().read(now).is_err(), "{text:?}: a time without its bound");
    }
}

#[test]
fn a_file_that_is_no_such_clock_gives_the_reason() {
    let opened = PhcSource::open(Path::new("/dev/null"), PhcScale::ByName);
    assert!(opened.unknown().unwrap().to_string().starts_with("not readable: /dev/null: "));
}

/// A card that answers with CLOCK_REALTIME before, its own time and
/// CLOCK_REALTIME after.
#[derive(Debug)]
struct Card([u64; 3]);

impl Device for Card {
    fn precise(&self) -> io::Result<ptp_sys_offset_precise> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn extended(&self) -> io::Result<ptp_sys_offset_extended> {
        let time = |ns: u64| ptp_clock_time {
            sec: (ns / 1_000_000_000) as i64,
            nsec: (ns % 1_000_000_000) as u32,
            reserved: 0,
        };
        let mut ts = [[time(0); 3]; 25];
        ts[0] = self.0.map(time);
        Ok(ptp_sys_offset_extended { n_samples: 1, clockid: libc::CLOCK_REALTIME, rsv: [0; 2], ts })
    }
}

fn card(scale: PhcScale, times: [u64; 3]) -> PhcSource {
    let phc = PhcDevice::over(Box::new(Card(times))).unwrap();
    let (name, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
    PhcSource { name, clock_name, phc, scale, ahead: PhcLead::ByScale, error_bound: None }
}

/// The device counts UTC under one kernel and TAI under another: its own page
/// decides, whatever CLOCK_REALTIME shows, and a page that does not vouch for
/// its time takes the device with it.
#[test]
fn a_vmclocks_scale_is_measured() {
    let at = |ahead_s: u64| {
        let device = YEAR_2026 + ahead_s * 1_000_000_000;
        let clock_name = "vmclock0".into();
        let card = card(PhcScale::ByName, [YEAR_2026, device, YEAR_2026 + 900]);
        PhcSource { clock_name, ..card }
    };
    let page = |offset_s: i64| {
        let offset_ns = offset_s * 1_000_000_000;
        Ok(OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns: 0 })
    };
    assert_eq!(at(0).vmclocks_ahead_s(page(0)), Ok(0));
    assert_eq!(at(37).vmclocks_ahead_s(page(0)), Ok(37));
    // CLOCK_REALTIME is 37 s behind, and both are right.
    assert_eq!(at(37).vmclocks_ahead_s(page(37)), Ok(0));
    assert_eq!(at(74).vmclocks_ahead_s(page(37)), Ok(37));
    assert_eq!(at(9).vmclocks_ahead_s(page(0)), Err(UnknownScale::AtNeither));
    let off = SourceError::Unknown(Unknown::not_there("its time"));
    let refused = at(0).vmclocks_ahead_s(Err(off)).unwrap_err();
    assert_eq!(refused.to_string(), "cannot take the time from its page: not there: its time");
}

#[test]
fn a_card_counts_what_it_is_specified_to_count() {
    // 37 s and 450 ns ahead of the clock.
    let times = [YEAR_2026, YEAR_2026 + 37_000_000_450, YEAR_2026 + 900];
    let offset_ns = |scale| {
        let reading = card(scale, times).read(now).unwrap();
        offset(reading, String::new).unwrap().offset_ns
    };
    assert_eq!(offset_ns(PhcScale::TaiBy(37)), 0);
    assert_eq!(offset_ns(PhcScale::Utc), 37_000_000_000);
    let unspecified = card(PhcScale::ByName, times);
    let why = unspecified.read(now).unwrap_err().to_string();
    assert_eq!(why, "/dev/ptp1 (mlx5_ptp): its name does not show whether it counts UTC or TAI");
    assert_eq!(unspecified.apparent().unwrap(), (37_000_000_000, Apparent::Tai));
    // Read as it is, where only its frequency counts.
    let as_it_is = unspecified.fixed(None);
    assert_eq!(as_it_is.read(|| ()).unwrap().shown_ns.0, YEAR_2026 + 37_000_000_450);
    assert_eq!(
        (as_it_is.status().ahead_of_utc_s, card(PhcScale::Utc, times).status().ahead_of_utc_s),
        (None, Some(0))
    );
}
