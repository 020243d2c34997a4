//! Leap seconds scheduled, and TAI unset.

use facts::Fact;
use facts::Facts;
use facts::steering::{Adjtimex, TimeKeeperKind};

use crate::testing::{
    could_not, finding_text, fine, gone, healthy_kvm_guest, keeper, undisciplined, unreadable,
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
    facts.steering.chrony = gone("chronyc");
    insta::assert_snapshot!("left_out", finding_text(&facts, None, "leap-second"));
    let passed = with_state(|state| {
        state.status |= Adjtimex::STA_INS;
        state.state = 4;
    });
    fine(&passed, None, "leap-second");
}

#[test]
fn tai_is_reported_only_where_a_daemon_could_set_it() {
    insta::assert_snapshot!(finding_text(&with_state(|state| state.tai_s = 0), None, "tai-offset"));
    let mut by_timesyncd = with_state(|state| state.tai_s = 0);
    by_timesyncd.steering.keepers =
        Fact::Known(vec![keeper(TimeKeeperKind::SystemdTimesyncd, true)]);
    fine(&by_timesyncd, None, "tai-offset");
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    fine(&facts, None, "tai-offset");
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "leap-second");
    could_not(&unreadable(), None, "tai-offset");
}
