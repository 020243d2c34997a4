//! What the nodes of a fleet send and say of each other.

use std::collections::BTreeSet;
use std::path::Path;

use fleet_map::errormap::{Samples, Settings, solve};
use fleet_map::pair::{self, PeerReply, ReplyContent};
use proptest::prelude::*;
use test_size::size;

/// A request of any bytes is answered by no more than it has, or not; a reply of any bytes
/// has times in range.
fn packets(data: &[u8]) {
    if let Some(reply) = pair::reply(data, 1_700_000_000_000_000_000) {
        assert!(reply.len() <= data.len());
        // No responder answers another.
        assert_eq!(pair::reply(&reply, 0), None);
    }
    for near_ns in [0, 1_700_000_000_000_000_000, fleet_map::errormap::LONGEST_NS] {
        let content = PeerReply::parse(data, near_ns).map(|reply| reply.content);
        if let Some(ReplyContent::Times { received_ns, sent_ns }) = content {
            // Half an era away at most.
            let away = |ns: i64| (i128::from(ns) - i128::from(near_ns)).abs();
            assert!(away(received_ns).max(away(sent_ns)) <= (1 << 31) * 1_000_000_001);
        }
    }
}

/// Lines and pages of samples: a map whose bounds are in order, in bounded work.
fn samples(data: &[u8]) {
    let mut samples = Samples::default();
    pair::read(data, &mut samples).expect("memory can be read");
    let page = String::from_utf8_lossy(data);
    pair::add_page(&page, &mut samples, &mut BTreeSet::new());
    pair::add_federated(&page, &mut samples, &mut BTreeSet::new());
    let map = solve(&samples, &Settings::default());
    for node in &map.nodes {
        let Some(ahead) = node.ahead else { continue };
        assert!(ahead.min_ns <= ahead.estimate_ns && ahead.estimate_ns <= ahead.max_ns);
    }
    for link in &map.links {
        assert!(link.measured.min_ns <= link.measured.max_ns && link.all.min_ns <= link.all.max_ns);
        assert!(
            (link.nodes.0 as usize) < map.nodes.len() && (link.nodes.1 as usize) < map.nodes.len()
        );
    }
}

/// A request, its reply, and a kiss-o'-death.
fn packet_seeds() -> Vec<Vec<u8>> {
    let mut request = vec![0; pair::LENGTH];
    request[0] = 0x23;
    let reply = pair::reply(&request, 1_700_000_000_000_000_000).unwrap().to_vec();
    let mut kiss = reply.clone();
    kiss[1] = 0;
    kiss[12..16].copy_from_slice(b"RATE");
    vec![request, reply, kiss]
}

fn sample_seeds() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/pair_samples");
    let seeds = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    seeds.map(|path| std::fs::read(path).unwrap()).collect()
}

/// Seeds with some bytes replaced, removed and inserted.
fn damaged(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = proptest::collection::vec((any::<usize>(), any::<u8>(), 0..3), 0..8);
    (proptest::sample::select(seeds), edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, kind) in edits {
            let at = at % (bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(size(2000, 1_000_000)))]

    #[test]
    fn any_packet_is_answered_within_its_length(data in damaged(packet_seeds())) {
        packets(&data);
    }

    #[test]
    fn any_lines_and_pages_make_a_map_in_order(data in damaged(sample_seeds())) {
        samples(&data);
    }
}
