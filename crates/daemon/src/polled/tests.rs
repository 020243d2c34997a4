use std::net::UdpSocket;

use sources::phc::UnknownScale;

use sources::wire::ntp::{Packet, Timestamp};

use super::*;

/// A server on loopback that replies until it is dropped, with what `change` makes of a right reply.
fn server(change: fn(&mut Packet)) -> (Source, std::thread::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let replies = std::thread::spawn(move || {
        let mut bytes = [0; 48];
        let Ok((_, from)) = socket.recv_from(&mut bytes) else { return };
        let request = Packet::decode(&bytes).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = Timestamp::from_unix_ns(now.as_nanos() as i64);
        let mut packet = Packet {
            mode: 4,
            stratum: 2,
            leap: 0,
            reference_id: [192, 0, 2, 1],
            origin: request.transmit,
            receive: now,
            transmit: now,
            ..request
        };
        change(&mut packet);
        socket.send_to(&packet.encode(), from).unwrap();
    });
    let source = Source::ntp(&address, Duration::from_secs(5));
    (source.with_max_distance(Duration::from_secs(1)), replies)
}

/// What each of these shows, polled together.
fn polled(servers: Vec<(Source, std::thread::JoinHandle<()>)>) -> Vec<Result<(), String>> {
    let (mut sources, replies): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
    let which: Vec<_> = (0..sources.len()).collect();
    let results = Source::poll_all(&mut sources, &which);
    replies.into_iter().for_each(|thread| thread.join().unwrap());
    let is_usable = |result: PollResult| match result {
        PollResult { offset: Some(_), .. } => Ok(()),
        PollResult { change: Some(Err(why)), .. } => Err(why),
        other => panic!("{other:?}"),
    };
    results.into_iter().map(is_usable).collect()
}

/// Windows domain controllers state a root dispersion of 10 s.
#[test]
fn a_server_that_may_be_off_by_seconds_shows_no_time() {
    let far = |packet: &mut Packet| packet.root_dispersion = (10 << 16) + (1 << 15);
    let results = polled(vec![server(|_| ()), server(far)]);
    assert_eq!(results[0], Ok(()));
    let why = results[1].as_ref().unwrap_err();
    assert!(why.contains("root distance 10.5 s") && why.contains("allows 1.00 s"), "{why}");
}

#[test]
fn a_server_that_follows_its_own_clock_has_no_vote_beside_others() {
    let own = |packet: &mut Packet| packet.reference_id = [127, 127, 1, 1];
    let [right, first, second] = [server(|_| ()), server(own), server(own)];
    let results = polled(vec![right, first, second]);
    let refused = Err("it follows its own clock, and other servers do not".to_owned());
    assert_eq!(results, [Ok(()), refused.clone(), refused]);
    // An island has nothing else.
    assert_eq!(polled(vec![server(own)]), [Ok(())]);
}

/// The only server with a reference dies: the others of the island keep the clocks together.
#[test]
fn a_server_that_died_takes_no_vote_from_others() {
    let own = |packet: &mut Packet| packet.reference_id = [127, 127, 1, 1];
    let [(right, right_replies), (island, island_replies)] = [server(|_| ()), server(own)];
    let mut sources = [right, island];
    let first = Source::poll_all(&mut sources, &[0, 1]);
    assert!(first[0].offset.is_some() && first[1].offset.is_none(), "{first:?}");
    right_replies.join().unwrap();
    island_replies.join().unwrap();
    let (next, next_replies) = server(own);
    sources[1] = next;
    // In the very poll in which it does not reply, and where it is not polled any more.
    let second = Source::poll_all(&mut sources, &[0, 1]);
    assert!(second[0].offset.is_none() && second[1].offset.is_some(), "{second:?}");
    next_replies.join().unwrap();
    let (last, last_replies) = server(own);
    sources[1] = last;
    let third = Source::poll_all(&mut sources, &[1]);
    assert!(third[0].offset.is_some(), "{third:?}");
    last_replies.join().unwrap();
}

#[test]
fn two_names_that_turn_out_to_be_one_server_have_one_vote() {
    let unreachable = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = unreachable.local_addr().unwrap();
    let source = |name: &str| {
        let source = Source::ntp(&server.to_string(), Duration::from_millis(1));
        Source { name: name.into(), ..source }
    };
    let why = |polled: PollResult| match polled.change {
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
fn a_source_that_waits_for_the_kernel_is_reported_once_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let host =
        HostSource::open(&[sources::host::HostChannel::Socket(folder.path().join("host.sock"))])
            .unwrap();
    let mut source = Source::new(SourceKind::Phc, TimeSource::Host(Box::new(host)));
    let (device, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
    let not_set = sources::SourceError::Scale { device, clock_name, why: UnknownScale::TaiNotSet };
    let why = with_remedy(&not_set);
    let change = source.note_reply(Err(&why));
    let Some(Err(reported)) = change else { panic!("{change:?}") };
    assert!(reported.contains("try: use phc /dev/ptp1,tai=37"), "{reported}");
    assert_eq!(source.note_reply(Err(&why)), None);
    let known = OffsetBound { offset_ns: 0, bound_ns: 100, at_monotonic_ns: 1 };
    assert_eq!(source.note_reply(Ok(&known)), Some(Ok(())));
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
