use std::net::UdpSocket;

use super::*;

#[test]
fn a_server_is_asked_once_under_whichever_name() {
    let once = |servers: [&str; 2]| each_server_once(&servers.map(str::to_owned));
    for two in [["127.0.0.1", "127.0.0.2"], ["a.example", "b.example"], ["::1", "[::1]:124"]] {
        assert!(once(two).is_ok(), "{two:?}");
    }
    for (one, said) in [
        (["a.example", "a.example"], "ntp a.example is given twice"),
        (
            ["127.0.0.1", "127.0.0.1:123"],
            "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123",
        ),
        (["::1", "[::1]:123"], "ntp ::1 and ntp [::1]:123 are one server, [::1]:123"),
    ] {
        assert_eq!(once(one).unwrap_err().to_string(), said);
    }
}

#[test]
fn two_names_that_turn_out_to_be_one_server_have_one_vote() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap();
    let source = |name: &str| {
        let source = Source::ntp(&server.to_string(), Duration::from_millis(1));
        Source { name: name.into(), ..source }
    };
    let why = |change: Option<Change>| match change {
        Some(Change::Silent(why)) => why,
        other => panic!("{other:?}"),
    };
    // Who answered last keeps the vote; else the first.
    for (answered, (votes, other)) in [([None, None], (0, 1)), ([None, Some(true)], (1, 0))] {
        let mut sources = [source("ntp a"), source("ntp b")];
        for (source, answered) in sources.iter_mut().zip(answered) {
            source.answers = answered;
        }
        let told = Source::measure_all(&mut sources, &[0, 1]);
        let told: Vec<_> = told.into_iter().map(|(_, _, change)| why(change)).collect();
        assert!(told[votes].ends_with("no reply within 1 ms"), "{told:?}");
        assert!(told[other].ends_with(&format!("are one server, {server}")), "{told:?}");
    }
}

#[test]
fn a_kernel_that_is_not_told_yet_is_waited_for() {
    assert!(refuses(&UnknownScale::NotNamed));
    assert!(!refuses(&UnknownScale::TaiNotSet));
}

#[test]
fn a_source_that_waits_for_the_kernel_is_told_once_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let host = HostSocket::bind(&folder.path().join("host.sock")).unwrap();
    let mut source = Source::new(SourceKind::Phc, TimeSource::Host(host));
    let (device, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
    let not_set = SourceError::Scale { device, clock_name, why: UnknownScale::TaiNotSet };
    let (reading, change) = source.heard(None, Err(with_remedy(&not_set)));
    let Some(Change::Silent(why)) = change else { panic!("{change:?}") };
    assert!(why.contains("try: --phc /dev/ptp1,tai=37") && reading.is_none(), "{why}");
    assert_eq!(source.heard(None, Err(with_remedy(&not_set))).1, None);
    let known = OffsetBound { offset_ns: 0, bound_ns: 100, at_monotonic_ns: 1 };
    assert_eq!(source.heard(None, Ok(known)).1, Some(Change::Back));
}
