//! Offsets that monitoring shows wrongly, or never.

use facts::Fact;
use facts::steering::{Adjtimex, TimeKeeperKind, parse_adjtimex};

use crate::testing::{could_not, finding_text, fine, healthy_kvm_guest, keeper, unreadable};

/// As node_exporter#3764 shows it: 4.294967 s, and the clock is right.
#[test]
fn an_offset_of_2_to_the_32_ns_is_named_with_the_true_one() {
    let mut facts = healthy_kvm_guest();
    let text = "offset 4294674\nfrequency 0\nmaxerror 900\nesterror 9\nstatus 1\ntick 10000\ntai 0\nstate 0\n";
    facts.steering.adjtimex = parse_adjtimex(text);
    insta::assert_snapshot!(finding_text(&facts, None, "offset-miscast"));
    fine(&facts, None, "clock-offset");
}

#[test]
fn an_ordinary_offset_is_taken_as_it_is() {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(state) = &mut facts.steering.adjtimex {
        state.offset_ns = -293_296;
        state.status &= !Adjtimex::STA_NANO;
    }
    assert_eq!(fine(&facts, None, "offset-miscast"), "adjtimex's offset is -293 µs");
}

#[test]
fn an_alarm_on_what_nobody_sets_is_blind() {
    let mut facts = healthy_kvm_guest();
    facts.steering.offset_readers = Fact::Known(vec!["node_exporter".into()]);
    insta::assert_snapshot!(finding_text(&facts, None, "offset-alarm-blind"));
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Ntpd, true)]);
    fine(&facts, None, "offset-alarm-blind");
    for rule in ["offset-miscast", "offset-alarm-blind"] {
        could_not(&unreadable(), None, rule);
    }
}
