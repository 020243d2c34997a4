use disruptions::Kind;
use keeper::SourceKind;

use super::*;

const AT: u64 = 1_795_242_707_509_631_641;

fn shown(event: KeeperEvent) -> String {
    describe(&event).one_line()
}

fn basis(by_ns: i64, cause: Option<CorrectionCause>) -> Basis {
    let source = "ntp time.example".to_owned();
    Basis { by_ns, bound_ns: 3_200_000, source, agreeing: 2, of_sources: 3, cause }
}

#[test]
fn a_step_shows_before_and_after() {
    let corrected = Corrected {
        how: CorrectionMethod::Step,
        dry_run: false,
        before_unix_ns: Some(AT),
        after_unix_ns: Some(AT + 86_400_000_000_000),
        basis: basis(86_400_000_000_000, Some(CorrectionCause::Disruption(Kind::Pause.into()))),
    };
    assert_eq!(
        shown(KeeperEvent::Corrected(corrected)),
        "step: +86400.000 s, selected source ntp time.example ± 3.20 ms, 2 of 3 agree; cause: \
         pause; from 2026-11-21 06:31:47.509; to 2026-11-22 06:31:47.509"
    );
}

#[test]
fn a_wrong_rate_names_its_cause_and_remedy() {
    for (ppm, what) in [(22_994.1, "22994 ppm slow"), (-120_000.0, "120000 ppm fast")] {
        let expected = format!(
            "wrong rate: the counter is {what}: the clock is stepped repeatedly; the host \
             advertises a wrong TSC frequency to this machine: run `parachron doctor`, then have \
             the host fixed, or reboot this machine on that host"
        );
        assert_eq!(shown(KeeperEvent::WrongRate { ppm }), expected);
    }
    assert_eq!(
        shown(KeeperEvent::TickReset { tick_us: 10_001, frequency_ppm: 112.34 }),
        "tick reset: another daemon had set the kernel's tick to 10001 us; reset to 10000 us, with \
         a frequency of 112.340 ppm"
    );
    for (dry_run, told) in [(false, "will"), (true, "would")] {
        assert_eq!(
            shown(KeeperEvent::LeapSecond { by_s: 1, dry_run }),
            format!("leap second: the kernel {told} insert 23:59:60 at the end of this UTC day")
        );
    }
}

#[test]
fn a_dry_run_reports_would() {
    let corrected = |how| Corrected {
        how,
        dry_run: true,
        before_unix_ns: None,
        after_unix_ns: None,
        basis: basis(-41_200_000, Some(CorrectionCause::SourceMoved(SourceKind::Phc))),
    };
    for (how, expected) in [
        (CorrectionMethod::Step, "step: would correct by -41.2 ms, selected"),
        (CorrectionMethod::Slew, "slew: would correct by -41.2 ms, selected"),
        (CorrectionMethod::Makestep, "makestep: would request it, offset -41.2 ms"),
    ] {
        let shown = shown(KeeperEvent::Corrected(corrected(how)));
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn a_refusal_names_the_option_that_decides() {
    for (why, option) in [
        (Refusal::BeyondMaxStep { max_step_ns: 1 }, "max-step"),
        (Refusal::BeyondLongestAbsence { most_ns: 366 * 86_400_000_000_000 }, "than 366 days"),
        (Refusal::RateLimited { wait_ns: 1 }, "min-interval"),
        (Refusal::Contradiction, "(ntp)"),
        (Refusal::LoneServer { most_ns: 1 }, "(ntp)"),
        (Refusal::LoneServerAgain { moved_ns: 1, most_ns: 1, wait_ns: 1 }, "(ntp)"),
    ] {
        let shown = shown(KeeperEvent::Refused { basis: basis(1, None), why });
        assert!(shown.contains(option), "{shown}");
    }
}

#[test]
fn a_date_has_its_zeros() {
    assert_eq!(date_and_time(0), "1970-01-01 00:00:00.000");
    assert_eq!(date_and_time(951_782_400_000_000_000 - 1), "2000-02-28 23:59:59.999");
}

#[test]
fn a_source_is_named_once() {
    assert_eq!(with_source("ntp a.example", "a.example: no reply"), "a.example: no reply");
    assert_eq!(with_source("rtc", "not there: /dev/rtc"), "not there: /dev/rtc");
    assert_eq!(with_source("phc /dev/ptp0", "not set"), "phc /dev/ptp0: not set");
}
