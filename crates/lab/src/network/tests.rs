use std::io::Write as _;

use pvclock::Hertz;

use super::*;

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
    let (mode, in_flight) = (mode.name.to_owned(), mode.in_flight);
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
fn bars_are_judged_and_a_loop_without_exits_is_not_measured() {
    let of = |name: &str| MODES.iter().find(|mode| mode.name == name).unwrap();
    let rows = |loops: f64, exits: f64| {
        vec![
            row(of("plain"), 1.0, 1.0, 4.0),
            row(of("RDMSR loop"), loops, 100.0, exits),
            row(of("hypercall loop"), loops, 100.0, 101.0),
            row(of("guest and card poll"), 0.5, 0.0, 0.0),
            row(of("64, event index"), 1.0, 1.0, 1.0),
        ]
    };
    let verdicts = |rows: &[Echo], cpus| -> Vec<_> {
        let short = |verdict| match verdict {
            Verdict::Passed => 'p',
            Verdict::Failed => 'F',
            Verdict::NotMeasured(_) => '-',
        };
        checks(rows, cpus).into_iter().map(|check| short(check.verdict)).collect()
    };
    assert_eq!(verdicts(&rows(0.785, 99.0), 2), ['p'; 7]);
    assert_eq!(verdicts(&rows(0.79, 99.0), 2), ['p', 'F', 'F', 'p', 'p', 'p', 'p']);
    assert_eq!(verdicts(&rows(3.0, 4.5), 2), ['p', '-', 'F', 'p', 'p', 'p', 'p']);
    assert_eq!(verdicts(&rows(0.5, 99.0), 1), ['p', '-', '-', 'p', 'p', '-', 'p']);
    let mut busy = rows(0.5, 99.0);
    busy[3].quiet_rounds = 2;
    assert_eq!(verdicts(&busy, 2), ['p', 'p', 'p', 'p', 'p', '-', 'p']);
    let mut bad = rows(0.5, 99.0);
    (bad[0].lost, bad[3].interrupts, bad[4].notifications) = (1, 0.001, 0.101);
    assert_eq!(verdicts(&bad, 2), ['F', 'p', 'p', 'F', 'p', 'p', 'F']);
}

/// As counted on a KVM in software (docs/measurements/network.md), and on one with hardware,
/// where RDMSR is an exit and no emulation.
#[test]
fn a_loop_that_kvm_emulates_is_not_compared_and_a_slow_one_still_fails() {
    let of = |name: &str| MODES.iter().find(|mode| mode.name == name).unwrap();
    let rows = |emulated: [Option<f64>; 3]| {
        let [plain, read_msr, hypercall] = emulated;
        vec![
            Echo { emulated: plain, ..row(of("plain"), 1.0, 1.0, 4.03) },
            Echo { emulated: read_msr, ..row(of("RDMSR loop"), 0.85, 3.54, 9.31) },
            Echo { emulated: hypercall, ..row(of("hypercall loop"), 0.85, 23.7, 26.0) },
            row(of("guest and card poll"), 0.36, 0.0, 0.0),
            row(of("64, event index"), 1.0, 1.0, 1.0),
        ]
    };
    let loops = |rows: &[Echo]| checks(rows, 2).into_iter().skip(1).take(2).collect::<Vec<_>>();
    let [read_msr, hypercall] =
        loops(&rows([Some(27.0), Some(56.5), Some(37.7)])).try_into().unwrap();
    // (56.5 − 27) / 3.54.
    assert_eq!(
        read_msr.result(),
        "not comparable here, because this KVM emulates the loop: 8.3 instructions each, 9.3 \
         exits for 3.5 waits per packet"
    );
    assert_eq!(hypercall.verdict, Verdict::Failed, "slow, and an exit loop");
    for hardware in [[Some(0.0); 3], [None; 3]] {
        let verdicts = loops(&rows(hardware)).into_iter().map(|check| check.verdict);
        assert!(verdicts.eq([Verdict::Failed, Verdict::Failed]));
    }
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
