//! Stolen time and stalls.

use facts::Fact;
use facts::kernel::LogEvent;

use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, log, unreadable,
};

#[test]
fn high_steal() {
    let mut facts = healthy_kvm_guest();
    facts.load.steal_since_boot = Fact::Known(0.183);
    insta::assert_snapshot!(finding_text(&facts, None, "steal-time"));
    facts.load.steal_since_boot = Fact::Known(0.03);
    assert!(finding_text(&facts, None, "steal-time").starts_with("Note"));
    fine(&healthy_bare_metal(), None, "steal-time");
}

#[test]
fn stalls_in_a_guest_and_on_a_server() {
    let text = "watchdog: BUG: soft lockup - CPU#1 stuck for 67s! [swapper/1:0]";
    let mut guest = healthy_kvm_guest();
    log(&mut guest, 4_711.0, text, LogEvent::Stall);
    log(
        &mut guest,
        4_720.0,
        "hrtimer: interrupt took 250000000 ns",
        LogEvent::HrtimerLate { took_ns: 250_000_000 },
    );
    insta::assert_snapshot!("guest", finding_text(&guest, None, "stalls"));
    let mut server = healthy_bare_metal();
    log(&mut server, 4_711.0, text, LogEvent::Stall);
    insta::assert_snapshot!("server", finding_text(&server, None, "stalls"));
}

#[test]
fn a_short_timer_interrupt_is_no_finding() {
    let mut facts = healthy_kvm_guest();
    let event = LogEvent::HrtimerLate { took_ns: 11_082_175 };
    log(&mut facts, 380.0, "hrtimer: interrupt took 11082175 ns", event);
    assert_eq!(
        fine(&facts, None, "stalls"),
        "longest timer interrupt 11.1 ms, which a busy host explains"
    );
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "steal-time");
    could_not(&unreadable(), None, "stalls");
}
