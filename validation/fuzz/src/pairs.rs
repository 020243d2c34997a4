//! What the nodes of a fleet send and say of each other.

use std::collections::BTreeSet;

use exporter::pair::{self, PeerReply, ReplyContent};
use fleet::errormap::{Samples, Settings, solve};

/// A request of any bytes is answered by no more than it has, or not; a reply of any bytes
/// has times in range.
pub(crate) fn packets(data: &[u8]) {
    if let Some(reply) = pair::reply(data, 1_700_000_000_000_000_000) {
        assert!(reply.len() <= data.len());
        // No responder answers another.
        assert_eq!(pair::reply(&reply, 0), None);
    }
    for near_ns in [0, 1_700_000_000_000_000_000, fleet::errormap::LONGEST_NS] {
        let content = PeerReply::parse(data, near_ns).map(|reply| reply.content);
        if let Some(ReplyContent::Times { received_ns, sent_ns }) = content {
            // Half an era away at most.
            let away = |ns: i64| (i128::from(ns) - i128::from(near_ns)).abs();
            assert!(away(received_ns).max(away(sent_ns)) <= (1 << 31) * 1_000_000_001);
        }
    }
}

/// Lines and pages of samples: a map whose bounds are in order, in bounded work.
pub(crate) fn samples(data: &[u8]) {
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
