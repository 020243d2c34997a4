use super::*;
use crate::kernel::MAX_LINES;

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

/// Text about clocks that is no log: source code, a manual, a mail, other programs' messages.
const FOREIGN: &str = "\
  LOG(LOGS_WARN, \"System clock was stepped by %.6f seconds\", correction);
  pr_warn(\"timekeeping watchdog on CPU%d: Marking clocksource '%s' as unstable because the skew is too large:\\n\",
  printk(KERN_WARNING \"Losing too many ticks!\\n\");
  log_info(\"set local clock to %s (offset %fs)\", buf, d);
makestep threshold limit: chronyd steps the system clock if the adjustment is larger than a threshold.
The daemon logs a message when the clock was stepped, and exits beyond the panic limit of 1000 seconds.
> I think that the clock source is unstable because my laptop was asleep.
Jun 10 09:12:44 host1 sshd[1201]: System clock was stepped by -3.144283 seconds
Jun 10 09:12:44 host1 nginx[12]: PM: suspend exit
Jun 10 09:12:45 host1 myapp[33]: Radical host time change: 3 600 000 000 000ns (HostNow=1 ns)
ERROR worker: Source data offline, no selectable sources, time limit exceeded
";

#[test]
fn text_that_is_no_log_has_no_event() {
    let found = pasted(FOREIGN.as_bytes());
    assert!(found.log.is_empty(), "{:#?}", found.log);
    // Prose and source are no messages, and not counted as unread ones.
    assert_eq!(found.unread_lines, 3, "{found:?}");
}

#[test]
fn what_has_no_end_or_is_no_text_is_not_read_on() {
    let stopped = |bytes: &[u8], pieces: u32| {
        let mut log = PastedLog::default();
        let mut pushed = 0;
        while !log.is_full() && pushed < pieces {
            log.push(bytes);
            pushed += 1;
        }
        (log.finish().stopped, pushed < pieces)
    };
    assert_eq!(stopped(&[0; 65_536], 1000), (Some("it is not text"), true));
    assert_eq!(stopped(&[b'x'; 65_536], 1000), (Some("it has a line without end"), true));
    assert!(stopped(&[0x1f, 0x8b, 8, 0], 2).0.is_some_and(|why| why.contains("zcat")));
    assert_eq!(stopped(b"[ 1.0] usb 1-1: new device\n", 1000), (None, false));
}

#[test]
fn each_form_of_a_journal_gives_the_message() {
    let json = r#"{"__MONOTONIC_TIMESTAMP":"402046710","_TRANSPORT":"kernel","MESSAGE":"clocksource: Switched to clocksource hpet"}"#;
    let found = pasted(json.as_bytes()).log;
    assert_eq!(
        (found[0].at_s, &*found[0].text),
        (Some(402.04671), "clocksource: Switched to clocksource hpet")
    );
    let daemon =
        r#"{"MESSAGE":"System clock was stepped by -3.5 seconds","SYSLOG_IDENTIFIER":"chronyd"}"#;
    assert_eq!(pasted(daemon.as_bytes()).log[0].event, LogEvent::DaemonStepped { by_s: -3.5 });
    let export = "_TRANSPORT=kernel\nMESSAGE=clocksource: Switched to clocksource hpet\n";
    assert_eq!(pasted(export.as_bytes()).log.len(), 1);
    let encoded = "kernel: tsc: Refined TSC clocksource calibration: 2659=2E981 MHz\n";
    let hz = LogEvent::TscFrequency { hz: 2_659_981_000, refined: true };
    assert_eq!(pasted(encoded.as_bytes()).log[0].event, hz);
}

/// Manuals, source, letters and other programs' logs.
#[test]
fn foreign_text_gives_no_event() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/foreign");
    for entry in std::fs::read_dir(root).expect("testdata/foreign") {
        let path = entry.expect("an entry").path();
        let mut log = PastedLog::default();
        log.push(&std::fs::read(&path).expect("a text"));
        assert_eq!(log.finish().log, [], "{}", path.display());
    }
}

#[test]
fn stamps_that_go_back_are_found_unless_the_newest_line_is_first() {
    let back = |times: [&str; 5]| {
        let lines = times.map(|time| format!("Feb  9 {time} dom0 kernel: pciback: get owner\n"));
        pasted(lines.concat().as_bytes()).stamps_back.map(|back| (back.by_s, back.times))
    };
    let hours_back = ["09:27:25", "09:27:26", "09:27:28", "01:16:23", "01:36:55"];
    assert_eq!(back(hours_back), Some((29_465.0, 1)));
    assert_eq!(back(["05:00:04", "04:00:03", "03:00:02", "02:00:01", "01:00:00"]), None);
    assert_eq!(back(["05:00:04", "05:00:05", "05:00:04", "05:00:06", "05:00:06"]), None);
    // A month's end is no jump.
    assert_eq!(pasted(b"Jan 31 23:59:59 a b: c\nFeb  1 00:00:01 a b: c\n").stamps_back, None);
}

#[test]
fn two_equal_readings_of_the_rtc_show_that_it_stands_if_they_are_apart() {
    let shown = |text: &str| {
        let lines = text.replace('F', "/sys/class/rtc/rtc0/since_epoch");
        let found = pasted(lines.as_bytes()).log;
        found.iter().find_map(|line| match &line.event {
            LogEvent::Stated { of, .. } => Some(of.clone()),
            _ => None,
        })
    };
    for (text, wanted) in [
        ("# cat F; sleep 2; cat F\n946684800\n946684800\n", Some("rtc-stands")),
        ("$ cat F  # twice, 3 s apart\n946684800\n946684800  <- frozen\n", Some("rtc-stands")),
        ("$ cat F\n946684800\n$ sleep 5\n$ cat F\n946684800\n", Some("rtc-stands")),
        ("$ cat F\n946684800\n$ cat F\n946684800\n", Some("rtc-same-second")),
        ("# cat F; sleep 1; cat F\n946684800\n946684800\n", Some("rtc-same-second")),
        (
            "# cat F; cat F; sleep 2; cat F\n946684800\n946684800\n946684802\n",
            Some("rtc-same-second"),
        ),
        (
            "# for i in 1 2; do cat F; done; sleep 5\n946684800\n946684800\n",
            Some("rtc-same-second"),
        ),
        ("# cat /sys/class/rtc/rtc*/since_epoch; sleep 5\n946684800\n946684800\n", None),
        ("$ sleep 5; cat F\n946684800\n$ cat F\n946684800\n", Some("rtc-same-second")),
        ("$ cat F; sleep 5\n946684800\n$ cat /sys/class/rtc/rtc1/since_epoch\n946684800\n", None),
        ("# cat F; sleep 2; cat F\n946684800\n946684802\n946684802\n", Some("rtc-same-second")),
        ("# cat F; sleep 2; cat F\n946684800\n946684802\n", None),
        ("$ cat F\n946684800\nfoo\n946684800\n", None),
        ("946684800\n946684800\n", None),
    ] {
        assert_eq!(shown(text).as_deref(), wanted, "{text}");
    }
}

#[test]
fn what_a_command_printed_above_a_boot_is_of_no_other() {
    let read = "# cat F; sleep 2; cat F\n946684800\n946684800\n";
    let read = read.replace('F', "/sys/class/rtc/rtc0/since_epoch");
    let log = read + "[    0.000000] Linux version 6.12.1 (a@b) #1 SMP\n";
    let found = pasted(log.as_bytes());
    assert!(!found.is_several_boots);
    let stands =
        |line: &LogLine| matches!(&line.event, LogEvent::Stated { of, .. } if of == "rtc-stands");
    assert!(found.log.iter().any(stands), "{:?}", found.log);
}

#[test]
fn a_table_of_servers_shows_which_one_is_followed() {
    let shown = |text: &str| {
        let found = pasted(text.as_bytes()).log;
        let stated = |line: LogLine| match line.event {
            LogEvent::Stated { of, by_s } => (of, by_s.map(|s| (s * 1e6).round())),
            event => panic!("{event:?}"),
        };
        found.into_iter().map(stated).collect::<Vec<_>>()
    };
    for (row, of, by_us) in [
        ("*a 1.2.3.4 2 u 1 64 377 1.0 -27.1 4.0", "servers-followed", Some(27_100.0)),
        ("> *a 1.2.3.4 2 u 1 64 377 1.0 +148.03 4.0", "servers-behind", Some(148_030.0)),
        ("*a 1.2.3.4 2 u 1 64 377 1.0 -675.4 4.0", "servers-ahead", Some(675_400.0)),
        ("*a LOCAL(0) 4 u 1 64 377 1.0 -0.016 4.0", "servers-unset", Some(16.0)),
        ("*127.127.1.0 .LOCL. 5 l 1 64 377 0.0 0.0 0.0", "servers-own-clock", None),
        ("oPPS(0) .PPS. 0 l 2 16 17 0.0 -0.002 0.001", "servers-followed", Some(2.0)),
        ("^* a 2 6 377 23 +300ms[ +300ms] +/- 43ms", "servers-ahead", Some(300_000.0)),
        ("#* PPS0 0 4 377 23 -12us[ -15us] +/- 43us", "servers-followed", Some(12.0)),
        ("^? a 0 7 0 - +0ns[ +0ns] +/- 0ns", "servers-none", None),
        ("+a 1.2.3.4 2 u 51y 64 7 1622678 +811339 0.002", "servers-none", None),
        (
            "a .INIT. 16 u - 64 0 0.0 0.0 0.0\n*b 1.2.3.4 2 u 1 64 377 1.0 9.0 4.0",
            "servers-followed",
            Some(9_000.0),
        ),
        (
            "^? a 0 7 0 - +0ns[ +0ns] +/- 0ns\n^* b 2 6 377 23 +3ms[ +3ms] +/- 43ms",
            "servers-followed",
            Some(3_000.0),
        ),
        (
            "a .STEP. 16 u 406 64 0 0.0 0.0 0.0\n*a 1.2.3.4 2 u 1 64 1 1.0 1.0 4.0",
            "servers-stepped",
            None,
        ),
    ] {
        assert_eq!(shown(row)[0], (of.to_owned(), by_us), "{row}");
    }
    let heading = "     remote    refid   st t when poll reach   delay   offset  jitter\n";
    let followed = " b 1.2.3.4 2 u 1 64 377 1.0 9.0 4.0\n*a 1.2.3.4 2 u 1 64 377 1.0 9.0 4.0\n";
    let silent = " a .INIT. 16 u - 64 0 0.0 0.0 0.0\n";
    assert_eq!(shown(&format!("{heading}{followed}")).len(), 1);
    // Of each table it is told.
    let both = shown(&format!("{heading}{silent}{heading}{followed}"));
    let names: Vec<_> = both.iter().map(|(of, _)| of.as_str()).collect();
    assert_eq!(names, ["server-silent", "servers-none", "servers-followed"]);
    // Nothing is told of a table whose followed server cannot be read, or that has no row.
    let cut = format!("{heading} b 1.2.3.4 2 u 1 64 377 1.0 9.0 4.0\n*a 1.2.3.4 2 u\n");
    let first = format!(
        "{heading}*2001:db8::1\n .GPS. 1 u 1 64 377 1.0 9.0 4.0\n b 1.2.3.4 2 u 1 64 377 1.0 9.0 4.0\n"
    );
    for text in [&cut, &first, heading] {
        let found = pasted(text.as_bytes());
        assert_eq!((found.log.len(), found.unread_lines), (0, 1), "{text}");
    }
}
