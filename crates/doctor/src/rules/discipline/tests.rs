//! Sick machines for the rules about frequency, offset and error.

use facts::Fact;
use facts::Facts;
use facts::hardware::Phc;
use facts::steering::{Adjtimex, TimeKeeperKind, chrony_config};

use crate::testing::{
    could_not, finding_text, fine, healthy_kvm_guest, keeper, missing, tracking, undisciplined,
    unreadable,
};

fn with_state(edit: impl Fn(&mut Adjtimex)) -> Facts {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        edit(state);
    }
    facts
}

fn by_ntpd(mut facts: Facts) -> Facts {
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Ntpd, true)]);
    facts.steering.chrony = missing("chronyc");
    facts
}

/// A capture of ntptime's line may have the frequency alone.
#[test]
fn a_frequency_alone_shows_that_it_is_at_the_limit() {
    let frequency_alone = |ppm| {
        by_ntpd(with_state(|state| {
            state.frequency_ppm = ppm;
            state.not_given = vec!["status".into(), "tick".into()];
        }))
    };
    let text = finding_text(&frequency_alone(500.0), None, "frequency-correction");
    assert!(text.contains("500 ppm") && !text.contains("tick"), "{text}");
    could_not(&frequency_alone(20.0), None, "frequency-correction");
    could_not(&frequency_alone(300.0), None, "frequency-correction");
}

#[test]
fn a_correction_at_the_kernels_limit() {
    let facts = by_ntpd(with_state(|state| state.frequency_ppm = -500.0));
    insta::assert_snapshot!(finding_text(&facts, None, "frequency-correction"));
}

#[test]
fn a_suspicious_correction() {
    let facts = by_ntpd(with_state(|state| state.frequency_ppm = 260.0));
    insta::assert_snapshot!(finding_text(&facts, None, "frequency-correction"));
}

#[test]
fn chronys_longer_tick_is_counted() {
    let mut facts = with_state(|state| {
        state.frequency_ppm = -12.0;
        state.tick_us = 10_230;
    });
    let mut fast = tracking();
    fast.frequency_ppm = -22_988.0;
    facts.steering.chrony = Fact::Known(fast);
    insta::assert_snapshot!(finding_text(&facts, None, "frequency-correction"));
}

#[test]
fn a_slew_of_chronyds_is_no_correction_of_the_frequency() {
    let mut facts = with_state(|state| {
        state.frequency_ppm = 38.0;
        state.tick_us = 9_955;
    });
    let left = |left_s| {
        let mut of_chronyd = tracking();
        of_chronyd.system_offset_s = left_s;
        Fact::Known(of_chronyd)
    };
    facts.steering.chrony = left(-0.02);
    fine(&facts, None, "frequency-correction");
    // What chronyd does is not known.
    facts.steering.chrony = missing("chronyc");
    let by_the_kernel = finding_text(&facts, None, "frequency-correction");
    insta::assert_snapshot!(by_the_kernel);
    // Nothing is left to slew, or on the other side: somebody else set the tick.
    for left_s in [0.0, -12e-6, 0.02] {
        facts.steering.chrony = left(left_s);
        assert_eq!(finding_text(&facts, None, "frequency-correction"), by_the_kernel);
    }
    // It knows nothing itself.
    let mut without_reference = tracking();
    without_reference.stratum = 0;
    facts.steering.chrony = Fact::Known(without_reference);
    assert_eq!(finding_text(&facts, None, "frequency-correction"), by_the_kernel);
}

#[test]
fn ordinary_corrections_are_fine() {
    for ppm in [-199.0, 0.0, 80.0, 199.0] {
        fine(&with_state(|state| state.frequency_ppm = ppm), None, "frequency-correction");
    }
}

#[test]
fn an_offset_chrony_is_slewing() {
    let mut facts = healthy_kvm_guest();
    let mut behind = tracking();
    behind.system_offset_s = 64.2;
    facts.steering.chrony = Fact::Known(behind);
    insta::assert_snapshot!(finding_text(&facts, None, "clock-offset"));
}

#[test]
fn an_offset_the_kernel_is_slewing() {
    let facts = by_ntpd(with_state(|state| state.offset_ns = -250_000_000));
    insta::assert_snapshot!(finding_text(&facts, None, "clock-offset"));
}

#[test]
fn what_is_said_of_an_offset_is_what_the_daemon_does_about_it() {
    let mut facts = healthy_kvm_guest();
    let mut ahead = tracking();
    ahead.system_offset_s = 2.5;
    facts.steering.chrony = Fact::Known(ahead);
    facts.steering.chrony_config = chrony_config::parse("makestep 1.0 -1\n");
    let text = finding_text(&facts, None, "clock-offset");
    assert!(text.contains("chronyd will step it at its next update (makestep 1 -1)"), "{text}");
    facts.steering.chrony_config = chrony_config::parse("makestep 10 -1\n");
    assert!(finding_text(&facts, None, "clock-offset").contains("chronyd slews it"));
    let text = finding_text(
        &by_ntpd(with_state(|state| state.offset_ns = 400_000_000)),
        None,
        "clock-offset",
    );
    assert!(text.contains("ntpd steps") && !text.contains("slew"), "{text}");
    let mut facts = by_ntpd(with_state(|state| state.offset_ns = 300_000_000));
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::SystemdTimesyncd, true)]);
    let text = finding_text(&facts, None, "clock-offset");
    assert!(text.contains("slews it") && !text.contains("steps an offset"), "{text}");
}

/// /dev/ptp_hyperv goes with hv_utils: not where chronyd follows it.
#[test]
fn hv_utils_is_not_unbound_under_the_clock_that_chronyd_follows() {
    let mut facts = healthy_kvm_guest();
    let keepers = [TimeKeeperKind::Chrony, TimeKeeperKind::HypervUtils];
    facts.steering.keepers = Fact::Known(keepers.map(|kind| keeper(kind, true)).into());
    facts.phcs = Fact::Known(vec![Phc {
        device: "/dev/ptp0".into(),
        clock_name: "hyperv".into(),
        readable: true,
        link: Some("/dev/ptp_hyperv".into()),
    }]);
    let config = "refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0 stratum 2\nserver a\n";
    facts.steering.chrony_config = chrony_config::parse(config);
    for (reference, unbinds) in [("PHC0", false), ("192.0.2.1", true)] {
        let mut ahead = tracking();
        (ahead.system_offset_s, ahead.reference) = (2.5, reference.into());
        facts.steering.chrony = Fact::Known(ahead);
        let text = finding_text(&facts, None, "clock-offset");
        assert_eq!(text.contains("hv_utils/unbind"), unbinds, "{text}");
        assert_eq!(text.contains("--clock-device=/dev/ptp_hyperv."), !unbinds, "{text}");
    }
    // One of TAI is no time of day for a database.
    if let Fact::Known(phcs) = &mut facts.phcs {
        phcs[0].clock_name = "Virtio PTP type 1/variant 0".into();
        assert!(!finding_text(&facts, None, "clock-offset").contains("--clock-device"));
    }
}

#[test]
fn an_error_bound_that_has_grown() {
    let facts = with_state(|state| state.max_error_us = 5_400_000);
    insta::assert_snapshot!(finding_text(&facts, None, "error-bound"));
    // systemd-timesyncd's longest poll.
    fine(&with_state(|state| state.max_error_us = 1_100_000), None, "error-bound");
}

#[test]
fn impossible_states_are_not_judged() {
    for facts in
        [with_state(|state| state.tick_us = 0), with_state(|state| state.frequency_ppm = 9e9)]
    {
        could_not(&facts, None, "frequency-correction");
    }
}

#[test]
fn without_a_daemon_there_is_nothing_to_check() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    could_not(&facts, None, "clock-offset");
    could_not(&facts, None, "error-bound");
    for rule in ["frequency-correction", "clock-offset", "error-bound"] {
        could_not(&unreadable(), None, rule);
    }
}

/// A daemon that was killed in a slew leaves the end of the tick's range: 10 % slow.
#[test]
fn a_tick_that_was_left_is_set_back_without_a_reboot() {
    for tick_us in [9_000, 11_000] {
        let mut facts = healthy_kvm_guest();
        facts.steering.keepers = facts::Fact::Known(Vec::new());
        if let facts::Fact::Known(state) = &mut facts.steering.adjtimex {
            state.tick_us = tick_us;
        }
        let text = finding_text(&facts, None, "frequency-correction");
        assert!(text.contains("$ sudo adjtimex --tick 10000"), "{text}");
        assert!(!text.contains("Reboot"), "{text}");
    }
}
