use super::*;

#[test]
fn adjtime_says_which_time_the_rtc_holds() {
    assert_eq!(parse_convention("0.0 0 0.0\n0\nUTC\n"), Fact::Known(RtcConvention::Utc));
    assert_eq!(parse_convention("0.0 0 0.0\n0\nLOCAL"), Fact::Known(RtcConvention::Local));
    assert_eq!(parse_convention("0.0 0 0.0\n0\n"), Fact::Known(RtcConvention::Utc));
    assert_eq!(parse_convention(""), Fact::Known(RtcConvention::Utc));
    assert!(parse_convention("0\n0\nMARS\n").unknown().is_some());
}

#[test]
fn pages_take_every_field_at_its_extremes() {
    let page = parse_pvclock_page(
        "version 4294967295\ntsc_timestamp 0xffffffffffffffff\nsystem_time_ns 18446744073709551615\n\
         tsc_to_system_mul 0xffffffff\ntsc_shift -128\nflags 255\n",
    );
    assert_eq!(
        page,
        Fact::Known(PvclockPage {
            version: u32::MAX,
            tsc_timestamp: u64::MAX,
            system_time_ns: u64::MAX,
            tsc_to_system_mul: u32::MAX,
            tsc_shift: i8::MIN,
            flags: u8::MAX
        })
    );
    let why = parse_pvclock_page("version 4294967296\n").unknown().unwrap().to_string();
    assert_eq!(
        why,
        "malformed: parachron/pvclock-page: expected a field `version`, found \"4294967296\""
    );
}

#[test]
fn a_vmclock_may_not_count_generations() {
    let text = "device /dev/vmclock0\ndisruption_marker 7\nclock_status 2\n";
    let clock = parse_vmclock(text).value().unwrap().clone();
    assert_eq!((clock.disruption_marker, clock.vm_generation, clock.clock_status), (7, None, 2));
    let counted = parse_vmclock(&format!("{text}vm_generation 3\n")).value().unwrap().clone();
    assert_eq!(counted.vm_generation, Some(3));
    assert!(parse_vmclock(&format!("{text}vm_generation x\n")).unknown().is_some());
}

#[test]
fn a_kvm_host_may_not_know_its_frequency() {
    let host = parse_kvm_host("clock_ns 5\nflags 2\ntsc_control 1\n").value().copied().unwrap();
    assert_eq!((host.clock_ns, host.flags, host.tsc_hz, host.tsc_scaling), (5, 2, None, true));
    let host = parse_kvm_host("clock_ns 5\nflags 2\ntsc_control 0\ntsc_khz 2445428\n");
    assert_eq!(host.value().unwrap().tsc_hz, Some(2_445_428_000));
}

#[test]
fn a_ptp_clock_named_by_its_cards_address_is_not_named() {
    for (name, kept) in [
        ("0a1b2c3d4e5f\n", "withheld\n"),
        ("0A:1b:2c:3d:4e:5f\n", "withheld\n"),
        ("KVM virtual PTP\n", "KVM virtual PTP\n"),
        ("vmclock\n", "vmclock\n"),
    ] {
        assert_eq!(reduce_clock_name(name), kept);
        assert_eq!(reduce_clock_name(kept), kept);
    }
}

fn named(clock_name: &str) -> Phc {
    let device = "/dev/ptp0".to_owned();
    Phc { device, clock_name: clock_name.to_owned(), readable: true, link: None }
}

#[test]
fn a_virtio_clock_tells_what_it_counts() {
    let time = |kind| named(&format!("Virtio PTP type {kind}/variant 0")).time(None);
    let all: Vec<_> = (0..=5).map(time).collect();
    use PhcTime::{Monotonic, PerhapsSmearedUtc, SmearedUtc, Tai, Unknown, Utc};
    assert_eq!(all, [Utc, Tai, Monotonic, SmearedUtc, PerhapsSmearedUtc, Unknown]);
    assert!(!named("Virtio PTP type 2/variant 0").is_hosts(), "no time of day");
    assert_eq!(named("Virtio PTP type x").driver(), PhcDriver::Other);
}

#[test]
fn a_network_card_is_nobodys_host() {
    assert!(!named("igb-0000:01").is_hosts());
    assert!(named("ena-ptp-05").is_hosts());
    assert_eq!(named("mlx5_ptp").time(KernelVersion::parse("7.2.0")), PhcTime::Unknown);
}

#[test]
fn links_are_of_one_device() {
    let text = "ptp_hyperv ptp1\nptp_kvm ptp10\n../x ptp2\n";
    assert_eq!(link_of(text, "ptp1").as_deref(), Some("/dev/ptp_hyperv"));
    assert_eq!(link_of(text, "ptp10").as_deref(), Some("/dev/ptp_kvm"));
    assert_eq!(link_of(text, "ptp2"), None);
}
