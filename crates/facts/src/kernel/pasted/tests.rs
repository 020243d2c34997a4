use super::*;

fn pasted(bytes: &[u8]) -> Pasted {
    let mut log = PastedLog::default();
    // In pieces, as a pipe gives them.
    for piece in bytes.chunks(7) {
        log.push(piece);
    }
    log.finish()
}

const VERDICT: &str = "\
[  384.258940] clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:
[  384.261201] clocksource: 'acpi_pm' wd_now: 8d5199 wd_last: 60e92e mask: ffffff
[  384.263168] clocksource: 'tsc' cs_now: 1981c973dc9 cs_last: 1940283c820 mask: ffffffffffffffff
";

#[test]
fn whatever_is_around_the_lines_they_are_the_same() {
    let bare = pasted(VERDICT.as_bytes()).log;
    assert_eq!((bare.len(), bare[0].at_s), (3, Some(384.25894)));
    let each = |change: &dyn Fn(&str) -> String| VERDICT.lines().map(change).collect::<String>();
    for text in [
        each(&|line| format!("> {line}\r\n")),
        each(&|line| format!("> > {line}\n")),
        each(&|line| format!("kernel: {line}\n")),
        each(&|line| format!("Oct 12 22:01:02 nas kernel: {line}\n")),
        each(&|line| format!("\u{1b}[32m{}\u{1b}[0m{}\n", &line[..14], &line[14..])),
        each(&|line| format!("    {line}\n\nnoise \u{0}\u{7f}\n")),
    ] {
        assert_eq!(pasted(text.as_bytes()).log, bare, "{text}");
    }
    let units: Vec<u16> = format!("\u{feff}{VERDICT}").encode_utf16().collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units[1..].iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let whole = |bytes: &[u8]| {
        let mut log = PastedLog::default();
        log.push(bytes);
        log.finish().log
    };
    assert_eq!((whole(&little), whole(&big)), (bare.clone(), bare));
}

#[test]
fn the_boot_with_the_verdict_counts() {
    let boots = format!(
        "[    0.0] Linux version 5.10.1-x (a@b) #1\n{VERDICT}[    0.0] Linux version 6.1.2\n[    1.0] tsc: Detected 2600.000 MHz processor\n"
    );
    let found = pasted(boots.as_bytes());
    assert_eq!((found.log.len(), found.release.as_deref()), (3, Some("5.10.1-x")));
    assert!(found.is_several_boots);
    assert!(found.is_earlier_boot);
    // Stamps go back by themselves where consoles mix or the kernel's clock was set.
    let back = format!("{VERDICT}[    1.0] tsc: Detected 2600.000 MHz processor\n");
    let back = pasted(back.as_bytes());
    assert_eq!((back.log.len(), back.is_several_boots), (4, false));
}

#[test]
fn daemons_write_with_any_prefix() {
    for line in [
        "Nov 21 04:26:01 host chronyd[812]: System clock was stepped by -3.144283 seconds",
        "2026-11-21T04:26:01Z System clock was stepped by -3.144283 seconds",
        "21 Nov 04:26:01 ntpd[3]: time reset -3.144283 s",
    ] {
        let found = pasted(line.as_bytes()).log;
        assert_eq!(found[0].event, LogEvent::DaemonStepped { by_s: -3.144283 }, "{line}");
        assert_eq!(found[0].at_s.map(|at_s| at_s % 86_400.0), Some(15_961.0), "{line}");
    }
}

#[test]
fn any_amount_takes_bounded_memory() {
    let mut log = PastedLog::default();
    let line = b"[  1.0] clocksource: Switched to clocksource tsc\n";
    for _ in 0..100_000 {
        log.push(line);
    }
    log.push(&[b'x'; 100_000]);
    assert!(log.line.len() <= LONGEST_LINE);
    let found = log.finish();
    assert_eq!((found.log.len(), found.lines), (MAX_LINES, 100_001));
}
