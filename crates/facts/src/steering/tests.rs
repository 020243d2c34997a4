use super::*;

const TEXT: &str = "offset 1500\nfrequency -1310720\nmaxerror 2000\nesterror 20\nstatus 8193\n\
                    tick 10000\ntai 37\nstate 0\n";

#[test]
fn adjtimex_comes_in_plain_units() {
    let known = parse_adjtimex(TEXT).value().unwrap().clone();
    assert_eq!(known.offset_ns, 1500);
    assert_eq!(known.frequency_ppm, -20.0);
    assert_eq!((known.max_error_us, known.estimated_error_us), (2000, 20));
    assert_eq!((known.tick_us, known.tai_s, known.state), (10_000, 37, 0));
    assert!(known.has(Adjtimex::STA_PLL) && known.has(Adjtimex::STA_NANO));
    // Without STA_NANO the offset is in microseconds.
    let micro = parse_adjtimex(&TEXT.replace("8193", "1")).value().unwrap().clone();
    assert_eq!(micro.offset_ns, 1_500_000);
    let extreme = TEXT.replace("offset 1500", "offset 9223372036854775807").replace("8193", "1");
    assert_eq!(parse_adjtimex(&extreme).value().unwrap().offset_ns, i64::MAX);
}

#[test]
fn a_field_that_is_missing_or_absurd_is_named() {
    let why = |text: &str| parse_adjtimex(text).unknown().unwrap().to_string();
    assert!(why("").contains("expected a field `status`"));
    let partial = parse_adjtimex("maxerror 940000\ntai 0\n").value().unwrap().clone();
    assert_eq!(partial.max_error_us, 940_000);
    assert!(partial.not_given.iter().any(|name| name == "status"), "{partial:?}");
    assert_eq!(
        why(&TEXT.replace("tai 37", "tai 99999999999")),
        "malformed: parachron/adjtimex: expected a field `tai`, found \"99999999999\""
    );
}

#[test]
fn time_keepers_are_named_and_in_a_state() {
    let found = parse_keepers("chrony installed running\nhyperv-utils running\n\n");
    let keeper =
        |kind, installed, running| TimeKeeper { installed, running, ..TimeKeeper::installed(kind) };
    assert_eq!(
        found,
        Fact::Known(vec![
            keeper(TimeKeeperKind::Chrony, true, true),
            keeper(TimeKeeperKind::HypervUtils, false, true)
        ])
    );
    assert_eq!(parse_keepers(""), Fact::Known(vec![]));
    let found = parse_keepers("ntpd running unit=ntpsec.service by-unit-alone\n");
    let ntpsec = TimeKeeper {
        unit: Some("ntpsec.service".into()),
        by_unit_alone: true,
        ..keeper(TimeKeeperKind::Ntpd, false, true)
    };
    assert_eq!(ntpsec.program_and_unit(), "ntpd (ntpsec.service)");
    assert_eq!(found, Fact::Known(vec![ntpsec]));
    for bad in [
        "chrony",
        "chrony sleeping",
        "sundial installed",
        "\u{fffd}",
        "chrony running unit=a;reboot",
        "chrony running unit=--now",
        "chrony running unit=",
    ] {
        assert!(parse_keepers(bad).unknown().is_some(), "{bad}");
    }
    for kind in TimeKeeperKind::ALL {
        // One name in trees and in JSON.
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
    }
}

const LINE: &str = "CB00710F,203.0.113.15,3,1782000000.123456789,0.000006523,-0.000006747,\
                    0.000035822,-3.225,0.000,0.129,0.013639022,0.001100737,64.2,Normal\n";

#[test]
fn tracking_is_read_in_chronys_order() {
    let known = parse_tracking(LINE).value().unwrap().clone();
    assert_eq!((known.reference.as_str(), known.stratum), ("203.0.113.15", 3));
    assert_eq!(known.system_offset_s, 0.000_006_523);
    assert_eq!(known.last_offset_s, -0.000_006_747);
    assert_eq!(known.rms_offset_s, 0.000_035_822);
    assert_eq!(known.frequency_ppm, -3.225);
    assert_eq!((known.residual_frequency_ppm, known.skew_ppm), (0.0, 0.129));
    assert_eq!((known.root_delay_s, known.root_dispersion_s), (0.013_639_022, 0.001_100_737));
    assert_eq!(known.leap_status, "Normal");
    let printed = "Reference ID    : CB00710F (a,b)\nStratum         : 3\n\
                   System time     : 0.0 seconds fast of NTP time\n\
                   Last offset     : +0.0 seconds\nRMS offset      : 0.0 seconds\n\
                   Frequency       : 1.0 ppm slow\nResidual freq   : +0.0 ppm\n\
                   Skew            : 0.1 ppm\nRoot delay      : 0.1 seconds\n\
                   Root dispersion : 0.1 seconds\nUpdate interval : 64.2 seconds\n\
                   Leap status     : Normal\n";
    assert_eq!(parse_tracking(printed).value().unwrap().reference, "a b");
    for bad in ["", "506 Cannot talk to daemon\n", &LINE.replace("0.129", "nan"), &LINE[..40]] {
        assert!(parse_tracking(bad).unknown().is_some(), "{bad}");
    }
}

#[test]
fn addresses_of_servers_are_withheld() {
    let reduced = reduce_tracking(LINE);
    assert!(reduced.starts_with("withheld,withheld,3,"), "{reduced}");
    assert_eq!(reduce_tracking(&reduced), reduced);
    for stays in ["A9FEA97B,169.254.169.123,4,", "50484330,PHC0,1,", "00000000,,0,"] {
        assert!(reduce_tracking(&format!("{stays}0,0")).starts_with(stays), "{stays}");
    }
    for goes in
        ["7F7F0101,time.secret.example,4,", "0A000001,10.0.0.1,3,", "01020304,2001:db8::1,2,"]
    {
        assert!(reduce_tracking(goes).starts_with("withheld,withheld,"), "{goes}");
    }
}
