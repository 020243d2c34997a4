//! Sick machines for the rules about frequency, offset and error.

use facts::Fact;
use facts::Facts;
use facts::steering::{Adjtimex, TimeKeeperKind};

use crate::testing::{
    could_not, finding_text, fine, gone, healthy_kvm_guest, keeper, tracking, undisciplined,
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
    facts.steering.chrony = gone("chronyc");
    facts
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
    let facts = with_state(|state| {
        state.frequency_ppm = -12.0;
        state.tick_us = 10_230;
    });
    insta::assert_snapshot!(finding_text(&facts, None, "frequency-correction"));
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
