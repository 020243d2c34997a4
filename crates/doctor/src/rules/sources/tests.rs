//! Sources that contradict each other, or are left unused.

use facts::hardware::{Phc, VmClock};
use facts::steering::{ChronyTracking, TimeKeeperKind, chrony_config, ntp_config};
use facts::{Fact, Facts};

use crate::testing::{
    could_not, finding_text, findings_of_rule, fine, healthy_bare_metal, healthy_kvm_guest, keeper,
    tracking, unreadable,
};

const RULE: &str = "phc-time-scale";

fn with(clock_name: &str, release: &str, config: &str) -> Facts {
    let mut facts = healthy_kvm_guest();
    facts.kernel.release = Fact::Known(release.into());
    facts.phcs = Fact::Known(vec![Phc {
        device: "/dev/ptp0".into(),
        clock_name: clock_name.into(),
        readable: true,
        link: None,
    }]);
    facts.steering.chrony_config = chrony_config::parse(config);
    facts
}

/// chronyd calls itself synchronised to a card's clock that runs free.
#[test]
fn a_cards_clock_on_bare_metal_is_nobodys_time() {
    let mut facts = with("mlx5_ptp", "6.12.1", "refclock PHC /dev/ptp0 poll 2\n");
    (facts.cpu, facts.system) = (healthy_bare_metal().cpu, healthy_bare_metal().system);
    facts.steering.chrony =
        Fact::Known(ChronyTracking { reference: "PHC0".into(), stratum: 1, ..tracking() });
    let text = finding_text(&facts, None, "host-clock-unused");
    assert!(text.starts_with("Warning: chronyd follows /dev/ptp0, a network card's"), "{text}");
    let verdict = crate::diagnose(&facts, None).verdict;
    assert!(verdict.starts_with("It is not known whether the time is right"), "{verdict}");
}

#[test]
fn a_vmclock_counts_utc_before_linux_7_and_tai_since() {
    let (utc, tai) =
        ("refclock PHC /dev/ptp0 poll 2\n", "refclock PHC /dev/ptp0 poll 2 offset -37\n");
    for (release, config) in [("6.19.3", utc), ("7.0.0", tai)] {
        fine(&with("vmclock", release, config), None, "phc-time-scale");
    }
    insta::assert_snapshot!(finding_text(&with("vmclock", "7.2.13", utc), None, "phc-time-scale"));
    let text = finding_text(&with("vmclock", "6.12.1", tai), None, "phc-time-scale");
    assert!(text.starts_with("Error: /dev/ptp0 counts UTC"), "{text}");
    // The offset is added to the clock's time.
    let text =
        finding_text(&with("vmclock", "7.0.0", &utc.replace("poll 2", "offset 37")), None, RULE);
    assert!(
        text.contains("counts TAI, but its refclock line in chrony.conf adds 37 s: 74 s off"),
        "{text}"
    );
    // Without a table of leap seconds chronyd does not know TAI − UTC.
    let by_table = "refclock PHC /dev/ptp0 tai\nleapsectz right/UTC\n";
    fine(&with("vmclock", "7.0.0", by_table), None, RULE);
    let text = finding_text(&with("vmclock", "7.0.0", "refclock PHC /dev/ptp0 tai\n"), None, RULE);
    assert!(text.contains("configured to read it as UTC: 37 s off"), "{text}");
}

#[test]
fn each_kind_of_clock_has_its_own_line() {
    let line = |clock_name: &str, release: &str| {
        let facts = with(clock_name, release, "pool pool.ntp.org\n");
        let diagnosis = crate::diagnose(&facts, None);
        let finding = findings_of_rule(&diagnosis, "host-clock-unused").remove(0);
        let command = finding.remedies[0].command.clone().unwrap_or_default();
        command.split('\'').nth(1).unwrap_or("no line").to_owned()
    };
    assert_eq!(line("vmclock", "7.1.0"), "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset -37");
    assert_eq!(line("vmclock", "6.12.0"), "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset 0");
    assert_eq!(line("vmclock", "unknown"), "no line");
    assert_eq!(line("hyperv", ""), "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset 0 stratum 2");
    assert_eq!(line("ena-ptp-05", ""), "refclock PHC /dev/ptp0 poll 0 delay 0.000010 prefer");
    let virtio = |kind| line(&format!("Virtio PTP type {kind}/variant 0"), "7.2.0");
    assert_eq!(virtio(0), "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset 0");
    assert_eq!(virtio(1), "refclock PHC /dev/ptp0 poll 3 dpoll -2 offset -37");
    let monotonic = with("Virtio PTP type 2/variant 0", "7.2.0", "pool pool.ntp.org\n");
    assert!(findings_of_rule(&crate::diagnose(&monotonic, None), "host-clock-unused").is_empty());
}

#[test]
fn a_vmclock_whose_host_does_not_know_the_time_is_not_offered() {
    let mut facts = with("vmclock", "7.1.0", "pool pool.ntp.org\n");
    let page = |clock_status| VmClock {
        device: "/dev/vmclock0".into(),
        disruption_marker: 7,
        vm_generation: None,
        clock_status,
    };
    facts.vmclock = Fact::Known(page(1));
    assert!(fine(&facts, None, "host-clock-unused").contains("no PTP clock of a host"));
    facts.vmclock = Fact::Known(page(2));
    finding_text(&facts, None, "host-clock-unused");
}

#[test]
fn two_kinds_of_leap_second_are_a_note_until_one_is_announced() {
    let config = "refclock PHC /dev/ptp0\nserver 169.254.169.123 prefer\n";
    let facts = with("ena-ptp-05", "6.1.0", config);
    insta::assert_snapshot!(finding_text(&facts, None, "mixed-leap-smear"));
    for alone in ["refclock PHC /dev/ptp0\n", "server 169.254.169.123\n", "pool pool.ntp.org\n"] {
        fine(&with("ena-ptp-05", "6.1.0", alone), None, "mixed-leap-smear");
    }
}

#[test]
fn a_fine_configuration_states_what_was_checked() {
    let outcome = |config: &str| {
        let mut facts = healthy_kvm_guest();
        facts.steering.chrony_config = chrony_config::parse(config);
        let found = findings_of_rule(&crate::diagnose(&facts, None), "chrony-configuration");
        match found.is_empty() {
            true => fine(&facts, None, "chrony-configuration"),
            false => finding_text(&facts, None, "chrony-configuration"),
        }
    };
    for none in ["", "driftfile\n", "frobnicate 1\n"] {
        assert_eq!(outcome(none), "chrony's configuration: no source in these files");
    }
    assert!(outcome("pool a iburst\n").contains(": no unknown option in servers' lines, and"));
    assert!(outcome("server 127.0.0.1 port 11990\n").contains("no unknown option in servers'"));
    assert!(outcome("server 127.127.1.0\nserver a\n").contains("one server alone"));
    let refused = outcome("# file /etc/c.conf\npool a\nmakestep 1 3 # step\n");
    assert!(refused.contains("sudo chronyd -p -f /etc/c.conf"), "{refused}");
    let skipped = outcome("# file /etc/c.conf\n# sources /run/a.sources\nserver a prefers\n");
    assert!(skipped.contains("chronyd ignores a line of /run/a.sources"), "{skipped}");
}

#[test]
fn of_ntpds_127_127_only_type_1_is_this_machine() {
    let mut facts = healthy_kvm_guest();
    let mut set = |lines: &str| {
        let text = format!("# file /etc/ntp.conf\n{}", ntp_config::reduce(lines));
        facts.steering.ntp_configs = ntp_config::parse(&text);
        facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Ntpd, true)]);
        facts.clone()
    };
    let own = finding_text(&set("server 127.127.1.0\n"), None, "ntp-configuration");
    assert!(own.contains("this machine itself alone"), "{own}");
    for clock in ["server 127.127.20.0 mode 17\n", "server 127.127.28.0\nserver a\n"] {
        fine(&set(clock), None, "ntp-configuration");
    }
    for others in ["", "includefile /etc/more\n", "refclock shm\n"] {
        let diagnosis = crate::diagnose(&set(others), None);
        let found = findings_of_rule(&diagnosis, "ntp-configuration");
        assert_eq!(found.is_empty(), !others.is_empty(), "{others}");
    }
    let mut facts = set("server a\n");
    facts.steering.keepers = unreadable().steering.keepers;
    let text = finding_text(&facts, None, "ntp-configuration");
    assert!(text.contains("whether ntpd runs"), "{text}");
}

#[test]
fn without_a_readable_configuration_nothing_is_said() {
    let mut facts = with("vmclock", "7.2.0", "");
    facts.steering.chrony_config = unreadable().steering.chrony_config;
    for rule in ["phc-time-scale", "host-clock-unused", "mixed-leap-smear"] {
        could_not(&facts, None, rule);
        could_not(&unreadable(), None, rule);
    }
}
