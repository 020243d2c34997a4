use super::*;

#[test]
fn what_is_subtracted_is_in_the_name_and_a_hosts_clock_keeps_its_own() {
    let card = |scale, ahead_s| phc_name("mlx5_ptp", "/dev/ptp1", scale, ahead_s);
    assert_eq!(card(PhcScale::ByName, None), "phc /dev/ptp1");
    assert_eq!(card(PhcScale::Utc, Some(0)), "phc /dev/ptp1 utc");
    assert_eq!(card(PhcScale::Tai, Some(37)), "phc /dev/ptp1 tai=37");
    assert_eq!(card(PhcScale::TaiBy(38), Some(38)), "phc /dev/ptp1 tai=38");
    let host = |name| phc_name(name, "/dev/ptp0", PhcScale::ByName, Some(0));
    assert_eq!(host("hyperv"), "phc /dev/ptp0");
    assert_eq!(host(KVM_CLOCK), "kvm /dev/ptp0");
    let specified = phc_name(KVM_CLOCK, "/dev/ptp0", PhcScale::TaiBy(37), Some(37));
    assert_eq!(specified, "kvm /dev/ptp0 tai=37");
}

#[test]
fn a_name_states_the_device_and_whether_it_gives_utc() {
    let of = |name| (phc_device(name), gives_utc(name), is_less_tai(name));
    assert_eq!(of("phc /dev/ptp1"), (Some("/dev/ptp1"), false, false));
    assert_eq!(of("phc /dev/ptp1 utc"), (Some("/dev/ptp1"), true, false));
    assert_eq!(of("phc /dev/ptp1 tai=37"), (Some("/dev/ptp1"), true, true));
    assert_eq!(of("kvm /dev/ptp0"), (Some("/dev/ptp0"), true, false));
    assert_eq!(of("ntp tai=37"), (None, true, false));
    assert_eq!(of("raw"), (None, false, false));
}
