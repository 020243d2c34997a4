//! Kernel parameters, useful, harmful and obsolete.

use facts::Fact;

use super::{PARAMETERS, TABLE};
use crate::diagnose;
use crate::testing::{
    boot_with, could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, unreadable,
    use_kvm_clock,
};

#[test]
fn each_obsolete_parameter() {
    let mut facts = healthy_kvm_guest();
    boot_with(
        &mut facts,
        "clock=pmtmr clocksource_failover=acpi_pm divider=10 xen.independent_wallclock=1",
    );
    insta::assert_snapshot!(finding_text(&facts, None, "obsolete-parameters"));
}

#[test]
fn each_harmful_parameter_in_a_guest() {
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 1);
    boot_with(
        &mut facts,
        "notsc tsc=unstable no_kvmclock no-kvmclock-vsyscall nopv nohz=off highres=off idle=poll \
         idle=halt lpj=1000 nolapic_timer noapictimer",
    );
    insta::assert_snapshot!(finding_text(&facts, None, "harmful-parameters"));
}

#[test]
fn trusting_a_doubtful_tsc() {
    let mut facts = healthy_bare_metal();
    if let Fact::Known(flags) = &mut facts.cpu.flags {
        flags.nonstop_tsc = false;
    }
    boot_with(&mut facts, "tsc=reliable tsc=nowatchdog");
    insta::assert_snapshot!(finding_text(&facts, None, "harmful-parameters"));
}

#[test]
fn harmless_parameters_are_explained() {
    let mut facts = healthy_bare_metal();
    boot_with(
        &mut facts,
        "clocksource=tsc tsc=reliable tsc=recalibrate processor.max_cstate=1 nohz=on nohz_full=2-3 \
         idle=poll hpet=disable no-kvmclock",
    );
    insta::assert_snapshot!(fine(&facts, None, "harmful-parameters"));
}

#[test]
fn words_for_init_are_not_the_kernels() {
    let mut facts = healthy_kvm_guest();
    boot_with(&mut facts, "-- divider=10 notsc");
    assert_eq!(diagnose(&facts, None).findings, []);
}

#[test]
fn the_table_reads_well() {
    assert_eq!(PARAMETERS.len(), TABLE.matches("\n== ").count());
    for row in PARAMETERS.iter() {
        assert!(row.today.ends_with('.'), "{}", row.words[0]);
        assert!(!row.today.contains("  "), "{}", row.words[0]);
    }
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "harmful-parameters");
    could_not(&unreadable(), None, "obsolete-parameters");
}
