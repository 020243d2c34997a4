use std::net::UdpSocket;

use sources::phc::UnknownScale;

use super::*;

#[test]
fn two_names_that_turn_out_to_be_one_server_have_one_vote() {
    let unreachable = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = unreachable.local_addr().unwrap();
    let source = |name: &str| {
        let source = Source::ntp(&server.to_string(), Duration::from_millis(1));
        Source { name: name.into(), ..source }
    };
    let why = |polled: PollResult| match polled.outcome.change {
        Some(Err(why)) => why,
        other => panic!("{other:?}"),
    };
    // The one that replied last keeps the vote; else the first.
    for (reachable, (votes, other)) in [([None, None], (0, 1)), ([None, Some(true)], (1, 0))] {
        let mut sources = [source("ntp a"), source("ntp b")];
        for (source, is_reachable) in sources.iter_mut().zip(reachable) {
            source.is_reachable = is_reachable;
        }
        let polled = Source::poll_all(&mut sources, &[0, 1]);
        let whys: Vec<_> = polled.into_iter().map(why).collect();
        assert!(whys[votes].ends_with("in 1 ms"), "{whys:?}");
        assert!(whys[other].ends_with(&format!("are one server, {server}")), "{whys:?}");
    }
}

#[test]
fn a_source_that_waits_for_the_kernel_is_reported_once_as_the_program_describes_it() {
    let folder = tempfile::tempdir().unwrap();
    let host =
        HostSource::open(&[sources::host::HostChannel::Socket(folder.path().join("host.sock"))])
            .unwrap();
    let mut source = Source::new(SourceKind::Phc, TimeSource::Host(Box::new(host)))
        .with_description(|why| format!("{why}; try: --phc /dev/ptp1,tai=37"));
    let (device, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
    let not_set = SourceError::Scale { device, clock_name, why: UnknownScale::TaiNotSet };
    let why = (source.describe)(&not_set);
    let outcome = source.note_reply(Err(why.clone()));
    let Some(Err(reported)) = outcome.change else { panic!("{outcome:?}") };
    assert!(reported.contains("try: --phc /dev/ptp1,tai=37"), "{reported}");
    assert_eq!(outcome.offset, None);
    assert_eq!(source.note_reply(Err(why)).change, None);
    let known = OffsetBound { offset_ns: 0, bound_ns: 100, at_monotonic_ns: 1 };
    assert_eq!(source.note_reply(Ok(known)).change, Some(Ok(())));
}

#[test]
fn what_smears_is_known_by_its_name_or_by_a_page() {
    let source = |name: &str| Source::ntp(name, Duration::from_millis(1));
    for (name, nearby, scale) in [
        ("192.0.2.1", false, AnnouncedScale::Utc),
        ("192.0.2.1", true, AnnouncedScale::Unknown),
        ("169.254.169.123", false, AnnouncedScale::Smeared),
        ("time.google.com", false, AnnouncedScale::Smeared),
    ] {
        assert_eq!(source(name).announcement(nearby), Announced { leap: None, scale }, "{name}");
    }
    assert_eq!(source("192.0.2.1").smearing(), None);
    let scales = [(None, false), (Some(0), false), (Some(0), true), (None, true)];
    let scales = scales.map(|(leap, shows_utc)| among_smeared(leap, shows_utc));
    assert_eq!(
        scales,
        [
            AnnouncedScale::Unknown,
            AnnouncedScale::Smeared,
            AnnouncedScale::Utc,
            AnnouncedScale::Utc
        ]
    );
    let told = source("time.google.com").smearing().unwrap();
    assert_eq!((told.source.as_str(), told.is_certain), ("ntp time.google.com", true));
}
