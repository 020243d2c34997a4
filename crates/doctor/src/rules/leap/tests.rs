//! Leap seconds scheduled, and TAI unset.

use facts::Fact;
use facts::Facts;
use facts::hardware::Phc;
use facts::kernel::LogEvent;
use facts::steering::{Adjtimex, TimeKeeperKind, chrony_config};

use crate::testing::{
    could_not, finding_text, fine, healthy_kvm_guest, keeper, log, missing, undisciplined,
    unreadable,
};

fn with_state(edit: impl Fn(&mut Adjtimex)) -> Facts {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        edit(state);
    }
    facts
}

#[test]
fn a_leap_second_armed() {
    let mut facts = with_state(|state| state.status |= Adjtimex::STA_INS);
    if let Fact::Known(tracking) = &mut facts.steering.chrony {
        tracking.leap_status = "Insert second".into();
    }
    insta::assert_snapshot!("inserted", finding_text(&facts, None, "leap-second"));
    let mut facts = with_state(|state| state.status |= Adjtimex::STA_DEL);
    facts.steering.chrony = missing("chronyc");
    insta::assert_snapshot!("left_out", finding_text(&facts, None, "leap-second"));
    let passed = with_state(|state| {
        state.status |= Adjtimex::STA_INS;
        state.state = 4;
    });
    fine(&passed, None, "leap-second");
}

/// 95 s after the leap second: no daemon runs, so adjtimex returns TIME_ERROR
/// in place of TIME_WAIT, and STA_INS stays.
#[test]
fn a_leap_second_that_has_passed_is_not_announced() {
    let mut facts = with_state(|state| {
        state.status |= Adjtimex::STA_INS | Adjtimex::STA_UNSYNC;
        (state.state, state.tai_s) = (5, 38);
    });
    facts.steering.chrony = missing("chronyc");
    assert!(finding_text(&facts, None, "leap-second").contains("end of this day"));
    let text = "Clock: inserting leap second 23:59:60 UTC";
    log(&mut facts, 86_305.0, text, LogEvent::LeapSecond);
    assert_eq!(
        fine(&facts, None, "leap-second"),
        "it has passed 95.0 s ago, and its flag is still set; TAI − UTC is now 38 s"
    );
    facts.kernel.log = missing("kernel log");
    could_not(&facts, None, "leap-second");
}

/// One that was inserted says nothing of one that is to be deleted.
#[test]
fn a_leap_second_of_the_other_kind_is_still_to_come() {
    let mut facts = with_state(|state| {
        state.status |= Adjtimex::STA_DEL | Adjtimex::STA_UNSYNC;
        state.state = 5;
    });
    facts.steering.chrony = missing("chronyc");
    let text = "Clock: inserting leap second 23:59:60 UTC";
    log(&mut facts, 86_305.0, text, LogEvent::LeapSecond);
    assert!(finding_text(&facts, None, "leap-second").contains("delete a second"));
}

#[test]
fn clients_of_smearing_servers_get_no_table_of_leap_seconds() {
    let mut facts = with_state(|state| state.tai_s = 0);
    facts.steering.chrony_config = chrony_config::parse("server time.google.com\n");
    assert!(fine(&facts, None, "tai-offset").contains("time.google.com smears"));
    // ptp_kvm shows the host's clock, which smears at Google only.
    facts.phcs = Fact::Known(vec![Phc {
        device: "/dev/ptp0".into(),
        clock_name: "KVM virtual PTP".into(),
        readable: true,
        link: None,
    }]);
    facts.steering.chrony_config = chrony_config::parse("refclock PHC /dev/ptp0 poll 2\n");
    assert!(finding_text(&facts, None, "tai-offset").contains("leapsectz"));
    facts.system.vendor = Fact::Known("Google".into());
    assert!(fine(&facts, None, "tai-offset").contains("/dev/ptp0 smears"));
    facts.steering.chrony_config = missing("/etc/chrony.conf");
    facts.system.vendor = Fact::Known("Amazon EC2".into());
    assert_eq!(could_not(&facts, None, "tai-offset"), "not there: /etc/chrony.conf");
}

#[test]
fn tai_is_reported_only_where_a_daemon_could_set_it() {
    insta::assert_snapshot!(finding_text(&with_state(|state| state.tai_s = 0), None, "tai-offset"));
    let mut by_timesyncd = with_state(|state| state.tai_s = 0);
    by_timesyncd.steering.keepers =
        Fact::Known(vec![keeper(TimeKeeperKind::SystemdTimesyncd, true)]);
    fine(&by_timesyncd, None, "tai-offset");
    // ntpd-rs has no table of leap seconds; ntpd's is not chrony's.
    let mut by_another = by_timesyncd.clone();
    by_another.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::NtpdRs, true)]);
    fine(&by_another, None, "tai-offset");
    by_another.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Ntpd, true)]);
    let text = finding_text(&by_another, None, "tai-offset");
    assert!(text.contains("'leapfile /usr") && !text.contains("chrony"), "{text}");
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    fine(&facts, None, "tai-offset");
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "leap-second");
    could_not(&unreadable(), None, "tai-offset");
}
