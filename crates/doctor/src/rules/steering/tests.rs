//! Sick machines for the rules about time daemons.

use facts::Fact;
use facts::Facts;
use facts::hardware::Phc;
use facts::kernel::LogEvent;
use facts::steering::{Adjtimex, ChronyTracking, TimeKeeper, TimeKeeperKind};

use crate::testing::{
    could_not, finding_text, fine, healthy_firecracker, healthy_kvm_guest, keeper, log, missing,
    tracking, undisciplined, unreadable,
};

fn with_keepers(running: &[TimeKeeperKind]) -> Facts {
    let mut facts = healthy_kvm_guest();
    facts.steering.keepers = Fact::Known(running.iter().map(|kind| keeper(*kind, true)).collect());
    facts
}

#[test]
fn no_daemon() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
}

#[test]
fn no_daemon_in_a_restored_guest_whose_host_offers_its_clock() {
    let mut facts = healthy_firecracker();
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Chrony, false)]);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
}

#[test]
fn no_daemon_visible_in_a_container() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.system.container = Fact::Known("docker".into());
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
    facts.steering.adjtimex = missing("adjtimex");
    let text = finding_text(&facts, None, "clock-steered");
    assert!(text.starts_with("Note: This container has the clock of its host"), "{text}");
}

#[test]
fn keep_disciplines_the_clock_and_fights_nobody() {
    let mut facts = with_keepers(&[TimeKeeperKind::ParachronKeep]);
    facts.steering.chrony = missing("chronyc");
    fine(&facts, None, "clock-steered");
    // It clears STA_UNSYNC once it has measured the clock.
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::ParachronKeep, true)]);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
    let facts = with_keepers(&[TimeKeeperKind::ParachronKeep, TimeKeeperKind::Chrony]);
    fine(&facts, None, "one-daemon");
}

#[test]
fn a_hidden_daemon_still_counts() {
    let mut facts = healthy_kvm_guest();
    facts.steering.keepers = Fact::Known(Vec::new());
    facts.steering.chrony = missing("chronyc");
    fine(&facts, None, "clock-steered");
}

#[test]
fn a_daemon_without_a_source() {
    let mut facts = with_keepers(&[TimeKeeperKind::SystemdTimesyncd]);
    facts.steering.chrony = missing("chronyc");
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        state.status |= Adjtimex::STA_UNSYNC;
        state.max_error_us = 16_000_000;
    }
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
    facts.load.uptime_s = Fact::Known(40.0);
    fine(&facts, None, "clock-steered");
}

#[test]
fn chronyds_own_report_decides_since_the_flag_needs_rtcsync() {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        state.status |= Adjtimex::STA_UNSYNC;
    }
    fine(&facts, None, "clock-steered");
    facts.steering.chrony = missing("chronyc");
    let text = finding_text(&facts, None, "clock-steered");
    assert!(text.starts_with("Note: ") && text.contains("without rtcsync"), "{text}");
    let mut lost = tracking();
    lost.stratum = 0;
    lost.leap_status = "Not synchronised".into();
    facts.steering.chrony = Fact::Known(lost);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
}

/// The remedy names the unit that is there, and not the one of most distributions.
#[test]
fn daemons_are_named_with_their_units() {
    let mut facts = healthy_kvm_guest();
    let of = |kind, unit: &str, by_unit_alone| {
        let unit = Some(unit.to_owned());
        TimeKeeper { unit, by_unit_alone, ..keeper(kind, true) }
    };
    facts.steering.keepers = Fact::Known(vec![
        of(TimeKeeperKind::Chrony, "chrony.service", false),
        of(TimeKeeperKind::Ntpd, "my-time.service", true),
    ]);
    let text = finding_text(&facts, None, "one-daemon");
    for shown in [
        "running: chronyd (chrony.service) and ntpd (my-time.service), of which",
        "sudo systemctl disable --now my-time",
    ] {
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn two_daemons() {
    let facts = with_keepers(&[TimeKeeperKind::SystemdTimesyncd, TimeKeeperKind::Chrony]);
    insta::assert_snapshot!(finding_text(&facts, None, "one-daemon"));
}

/// They leave STA_UNSYNC as it is, so it says nothing of them.
#[test]
fn daemons_by_adjtime_steer_the_clock_and_fight_others() {
    for (kind, program) in
        [(TimeKeeperKind::Connman, "connmand"), (TimeKeeperKind::Htpdate, "htpdate")]
    {
        let mut facts = healthy_kvm_guest();
        undisciplined(&mut facts);
        facts.steering.keepers = Fact::Known(vec![keeper(kind, true)]);
        assert_eq!(
            fine(&facts, None, "clock-steered"),
            format!("{program} runs and sets the clock")
        );
        let text = finding_text(&with_keepers(&[TimeKeeperKind::Chrony, kind]), None, "one-daemon");
        let named = format!("chronyd and {program} discipline the clock at the same time");
        assert!(text.contains(&named) && text.contains("disable --now"), "{text}");
    }
    // ClockBound's tells the kernel (STA_UNSYNC of its `Timex`).
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Clockbound, true)]);
    let text = finding_text(&facts, None, "clock-steered");
    assert!(text.contains("journalctl -u clockbound"), "{text}");
    let both = with_keepers(&[TimeKeeperKind::Clockbound, TimeKeeperKind::Ntpd]);
    let text = finding_text(&both, None, "one-daemon");
    assert!(text.contains("clockbound and ntpd discipline"), "{text}");
}

#[test]
fn virtualbox_tools_against_a_daemon() {
    let facts = with_keepers(&[TimeKeeperKind::VirtualBoxService, TimeKeeperKind::Ntpd]);
    insta::assert_snapshot!(finding_text(&facts, None, "guest-tools"));
}

#[test]
fn occasional_tools_are_no_finding() {
    let facts = with_keepers(&[
        TimeKeeperKind::Chrony,
        TimeKeeperKind::VmwareTools,
        TimeKeeperKind::HypervUtils,
    ]);
    assert_eq!(
        fine(&facts, None, "guest-tools"),
        "vmtoolsd, hv_utils: sets the clock only after pauses, unless configured otherwise"
    );
}

#[test]
fn tools_alone_are_no_finding() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::VirtualBoxService, true)]);
    fine(&facts, None, "clock-steered");
    fine(&facts, None, "guest-tools");
}

#[test]
fn vmware_tools_may_set_the_clock_unreported() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::VmwareTools, true)]);
    let text = finding_text(&facts, None, "clock-steered");
    assert!(text.contains("vmware-toolbox-cmd timesync status"), "{text}");
}

#[test]
fn a_network_cards_clock_is_not_the_hosts() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.phcs = Fact::Known(vec![Phc {
        device: "/dev/ptp0".into(),
        clock_name: "igb-0000:01".into(),
        readable: true,
        link: None,
    }]);
    log(&mut facts, 9.0, "PM: suspend exit", LogEvent::Resumed);
    let text = finding_text(&facts, None, "clock-steered");
    assert!(!text.contains("refclock"), "{text}");
}

#[test]
fn unknown_facts_are_no_finding() {
    for rule in ["clock-steered", "one-daemon", "guest-tools"] {
        could_not(&unreadable(), None, rule);
    }
}

#[test]
fn chronyd_without_a_source_does_not_count_as_following() {
    let mut one = tracking();
    assert!(one.is_synchronised());
    one.leap_status = "Not synchronised".into();
    assert!(!one.is_synchronised());
}

#[test]
fn chronyd_that_follows_its_own_clock_has_no_source() {
    let mut facts = healthy_kvm_guest();
    let own = ChronyTracking { reference: String::new(), stratum: 10, ..tracking() };
    facts.steering.chrony = Fact::Known(own);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-steered"));
    let verdict = crate::diagnose(&facts, None).verdict;
    assert!(
        verdict.starts_with("It is not known whether the time is right, because chronyd follows")
    );
}
