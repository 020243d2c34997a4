use std::io::Write as _;

use pvclock::Hertz;

use super::*;
use crate::results::Verdict;

const TSC: Hertz = Hertz(1_000_000_000);

fn turn(notifications: u64, cycles: [u64; 10]) -> Turn {
    let counted =
        PacketCount { replies: 11, notifications, interrupts: 11, ..PacketCount::default() };
    let one = PacketCount { replies: 1, notifications: 1, interrupts: 1, ..PacketCount::default() };
    let (cycles, exits, host_interrupts) = (cycles.to_vec(), Some(60), Some(30));
    let all = Turn { pings: 11, counted, cycles, exits, host_interrupts, ..Turn::default() };
    let (exits, host_interrupts) = (Some(40), Some(20));
    let set_up = Turn { pings: 1, counted: one, exits, host_interrupts, ..Turn::default() };
    all.without(&set_up)
}

fn tally(turns: &[Turn]) -> NetworkTally {
    let mut tally = NetworkTally::default();
    turns.iter().for_each(|turn| tally.add(turn.clone()));
    tally
}

#[test]
fn counts_are_those_of_the_packets_alone_and_ratios_the_rounds_own() {
    let usual = [100, 100, 100, 100, 100, 100, 100, 100, 200, 900];
    // A round in which the host was busy: both took ten times as long.
    let mut plain = [usual; 4].map(|usual| turn(11, usual));
    plain[1] = turn(11, usual.map(|one| one * 10));
    // In one another process had the CPU, which does not show in the other way's.
    plain[3] = Turn { waited: 0.5, ..turn(11, usual.map(|one| one * 50)) };
    let half = plain
        .clone()
        .map(|one| Turn { cycles: one.cycles.iter().map(|cycles| cycles / 2).collect(), ..one });
    let row = tally(&half).row(&tally(&plain), TSC).unwrap();
    assert_eq!((row.packets, row.notifications, row.interrupts, row.lost), (40, 1.0, 1.0, 0));
    assert_eq!((row.exits, row.host_interrupts), (Some(2.0), Some(1.0)));
    assert_eq!(row.emulated, None, "unknown is not 0");
    assert_eq!((row.p90_over_plain, row.quiet_rounds, row.rounds), (Some(0.5), 3, 4));
    assert_eq!((row.round_trip_ns.median, row.p90_ns), (450.0, 2500.0));
    assert!(NetworkTally::default().row(&tally(&plain), TSC).is_none());
}

fn row(mode: &NetworkMode, p90_over_plain: f64, waits: f64, exits: f64) -> Echo {
    let row = tally(&[turn(1, [5; 10])]).row(&tally(&[turn(1, [5; 10])]), TSC).unwrap();
    let (mode, in_flight) = (mode.name, mode.in_flight);
    let (p90_over_plain, exits) = (Some(p90_over_plain), Some(exits));
    let (host_interrupts, interrupts) = (exits, 0.0);
    let quiet_rounds = 3;
    Echo {
        mode,
        in_flight,
        p90_over_plain,
        quiet_rounds,
        waits,
        exits,
        host_interrupts,
        interrupts,
        ..row
    }
}

/// As KVM counted 383 packets beside a busy host: 713 exits, 714 interrupts of the host.
#[test]
fn an_exit_that_no_interrupt_of_the_host_made_is_the_guests() {
    let both_poll = MODES.iter().find(|mode| mode.name == "guest and card poll").unwrap();
    let verdict = |exits, host_interrupts| {
        check_reasons(&Echo { host_interrupts, ..row(both_poll, 0.5, 0.0, exits) }).verdict
    };
    assert_eq!(verdict(713.0 / 383.0, Some(714.0 / 383.0)), Verdict::Passed);
    assert_eq!(verdict(716.0 / 383.0, Some(714.0 / 383.0)), Verdict::Passed, "the card's set-up");
    assert_eq!(verdict(720.0 / 383.0, Some(714.0 / 383.0)), Verdict::Failed);
    assert!(matches!(verdict(0.13, None), Verdict::NotMeasured(_)));
}

#[test]
fn counts_are_judged_and_times_are_not() {
    let of = |name: &str| MODES.iter().find(|mode| mode.name == name).unwrap();
    let rows = |slow: f64| {
        vec![
            row(of("plain"), 1.0, 1.0, 4.0),
            row(of("RDMSR loop"), slow, 100.0, 99.0),
            row(of("hypercall loop"), slow, 100.0, 101.0),
            row(of("guest and card poll"), slow, 0.0, 0.0),
            row(of("64, event index"), 1.0, 1.0, 1.0),
        ]
    };
    let failed = |rows: &[Echo]| -> Vec<_> {
        checks(rows).into_iter().map(|check| check.verdict == Verdict::Failed).collect()
    };
    assert_eq!(failed(&rows(0.5)), [false; 4]);
    assert_eq!(failed(&rows(9.0)), [false; 4]);
    let mut bad = rows(0.5);
    (bad[0].lost, bad[3].interrupts, bad[4].notifications) = (1, 0.001, 0.101);
    assert_eq!(failed(&bad), [true, true, false, true]);
}

/// A card that does not poll, on a real machine: the check of that way sees it.
#[test]
fn a_planted_slow_path_fails() -> std::io::Result<()> {
    let Ok(host_tsc) = vmm::kvm::host_tsc() else {
        return writeln!(std::io::stderr(), "skipped: no /dev/kvm");
    };
    if linux::cpus::allowed().map_or(0, |cpus| cpus.len()) < CPUS {
        return writeln!(std::io::stderr(), "skipped: one CPU");
    }
    let timeout = Duration::from_secs(60);
    let settings = crate::Settings { rounds: 1, timeout, ..crate::Settings::default() };
    let bench = LabBench { settings: &settings, host_tsc };
    let failed = |modes: &[NetworkMode; MODES.len()]| {
        let (_, checks) = measure(&bench, &mut (), modes).unwrap();
        let check = checks.into_iter().find(|check| check.expected == "0, 0 and 0 per packet");
        check.expect("all ways were measured").verdict == Verdict::Failed
    };
    assert!(!failed(&MODES));
    let mut planted = MODES;
    let polls = planted.iter_mut().find(|mode| mode.name == "guest and card poll").unwrap();
    polls.card_polls = false;
    assert!(failed(&planted));
    Ok(())
}
