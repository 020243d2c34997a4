//! Sick RTCs.

use facts::Fact;
use facts::hardware::RtcConvention;

use super::whole_quarter_hours;
use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_firecracker, healthy_kvm_guest,
    missing, undisciplined, unreadable,
};

#[test]
fn an_rtc_in_local_time() {
    let mut facts = healthy_bare_metal();
    facts.rtc.convention = Fact::Known(RtcConvention::Local);
    facts.rtc.minus_system_s = Fact::Known(7_201);
    insta::assert_snapshot!(finding_text(&facts, None, "rtc-local-time"));
    fine(&facts, None, "rtc-off");
}

#[test]
fn an_rtc_far_off() {
    let mut facts = healthy_bare_metal();
    facts.rtc.minus_system_s = Fact::Known(-432);
    insta::assert_snapshot!(finding_text(&facts, None, "rtc-off"));
}

#[test]
fn that_an_rtc_agrees_proves_nothing_of_an_unsynchronised_clock() {
    let mut facts = healthy_bare_metal();
    facts.rtc.minus_system_s = Fact::Known(0);
    assert!(!fine(&facts, None, "rtc-off").contains("proves nothing"));
    undisciplined(&mut facts);
    assert!(fine(&facts, None, "rtc-off").contains("+0 s, which proves nothing"));
}

#[test]
fn an_rtc_that_is_off_by_a_time_zone() {
    let mut facts = healthy_bare_metal();
    facts.rtc.minus_system_s = Fact::Known(19_800);
    insta::assert_snapshot!(finding_text(&facts, None, "rtc-off"));
}

#[test]
fn in_an_undisciplined_guest_the_rtc_is_probably_right() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.rtc.minus_system_s = Fact::Known(64);
    insta::assert_snapshot!(finding_text(&facts, None, "rtc-off"));
}

#[test]
fn no_rtc_at_all() {
    let mut facts = healthy_bare_metal();
    facts.rtc.devices = Fact::Known(Vec::new());
    insta::assert_snapshot!(finding_text(&facts, None, "rtc-missing"));
    fine(&facts, None, "rtc-local-time");
    fine(&facts, None, "rtc-off");
    facts.rtc.devices = missing("/sys/class/rtc");
    finding_text(&facts, None, "rtc-missing");
}

#[test]
fn a_firecracker_guest_needs_no_rtc() {
    assert_eq!(
        fine(&healthy_firecracker(), None, "rtc-missing"),
        "none, and none needed: kvm-clock provides the time of day at boot"
    );
}

#[test]
fn time_zones_are_quarters_of_an_hour() {
    assert!([900, 1_795, 7_200, 7_209, 19_800, 50_400].into_iter().all(whole_quarter_hours));
    assert!(![0, 60, 450, 880, 51_300, 86_400, u64::MAX / 2].into_iter().any(whole_quarter_hours));
}

#[test]
fn unknown_facts_are_no_finding() {
    for rule in ["rtc-local-time", "rtc-off", "rtc-missing"] {
        could_not(&unreadable(), None, rule);
    }
    let mut facts = healthy_bare_metal();
    facts.rtc.minus_system_s = Fact::Known(i64::MIN);
    finding_text(&facts, None, "rtc-off");
}
