//! What goes wrong in which nodes, and what is to fire there.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::{sleep, spawn};
use std::time::Duration;

use rustix::process::Signal;

use crate::namespaces::cut_off;
use crate::node::{Kind, Node};
use crate::servers::{ADDRESSES, Reply, Servers};

/// A fault.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
    pub(crate) nodes: usize,
    /// The alerts that are to fire, in the order of their names, and no other.
    pub(crate) expected: &'static [&'static str],
    /// Causes it; the turn counts from 0.
    pub(crate) cause: fn(&mut Node, &Servers, turn: u64) -> io::Result<()>,
    /// In each turn.
    pub(crate) is_repeated: bool,
}

/// A node, and what is caused in it.
pub(crate) struct Faulty {
    pub(crate) fault: &'static Fault,
    pub(crate) node: Node,
}

const fn fault(
    what: &'static str,
    kind: Kind,
    nodes: usize,
    expected: &'static [&'static str],
    cause: fn(&mut Node, &Servers, u64) -> io::Result<()>,
) -> Fault {
    Fault { what, kind, nodes, expected, cause, is_repeated: false }
}

/// Fifty nodes.
#[rustfmt::skip]
pub(crate) static FAULTS: &[Fault] = &[
    fault("none", Kind::Common, 25, &[], |_, _, _| Ok(())),
    fault("one of three servers lies by 0.3 s", Kind::Common, 4, &["ParachronFalseticker"],
        |node, servers, _| {
            let lie = Reply { offset_s: 0.3, ..Reply::default() };
            reply(servers, node, &ADDRESSES[2..], lie)
        }),
    fault("the only server shows the clock off by 5 s: not corrected by one alone", Kind::OneServer, 3,
        &["ParachronClockMarginGone", "ParachronClockOff", "ParachronClockUnsynchronised",
            "ParachronCorrectionNotMade"],
        |node, servers, _| {
            let lie = Reply { offset_s: 5.0, ..Reply::default() };
            reply(servers, node, &ADDRESSES, lie)
        }),
    fault("the servers state a root dispersion of 0.4 s", Kind::Common, 3, &["ParachronClockMarginGone"],
        |node, servers, _| {
            let vague = Reply { dispersion_s: 0.4, ..Reply::default() };
            reply(servers, node, &ADDRESSES, vague)
        }),
    fault("no server replies any more: held over, an alert after an hour", Kind::Common, 2, &[],
        |node, servers, _| reply(servers, node, &ADDRESSES, SILENT)),
    fault("started anew while no server replies", Kind::Common, 3, &["ParachronClockUnsynchronised"],
        |node, servers, _| {
            reply(servers, node, &ADDRESSES, SILENT)?;
            node.signal(Signal::KILL)?;
            node.daemon.wait()?;
            node.start_daemon()
        }),
    fault("the VMClock page tells a disruption", Kind::Page, 3, &["ParachronDisrupted"],
        |node, _, _| node.disrupt()),
    Fault { is_repeated: true, ..fault("the clock is stepped by 0.3 s each 150 s", Kind::Common, 2,
        &["ParachronStepsRepeated"],
        |node, servers, turn| {
            let ahead = Reply { offset_s: 0.3 * (turn + 1) as f64, ..Reply::default() };
            reply(servers, node, &ADDRESSES, ahead)
        }) },
    fault("the daemon is killed", Kind::Common, 1, NOT_SCRAPED, |node, _, _| node.signal(Signal::KILL)),
    fault("the daemon hangs", Kind::Common, 1, NOT_SCRAPED, |node, _, _| node.signal(Signal::STOP)),
    fault("the node is off the network", Kind::Common, 1, NOT_SCRAPED, |node, _, _| cut_off(node.index)),
    // A dry run synchronises no kernel, which is all that is left to go by.
    fault("the daemon is killed, its exporter goes on", Kind::ExporterBeside, 1,
        &["ParachronClockUnsynchronised", "ParachronDaemonGone"],
        |node, _, _| node.signal(Signal::KILL)),
    fault("1,000 clients that never end their request", Kind::Common, 1, &[],
        |node, _, _| { let target = node.target(); spawn(move || slow_clients(&target)); Ok(()) }),
];

const NOT_SCRAPED: &[&str] = &["ParachronNotScraped"];
const SILENT: Reply = Reply { silent: true, offset_s: 0.0, dispersion_s: 0.0 };

/// Rules about the machine, which all nodes share; no fault here is about it.
pub(crate) const OF_THE_MACHINE: [&str; 3] =
    ["ParachronFinding", "ParachronSlowClock", "ParachronSteal"];

fn reply(servers: &Servers, node: &Node, of: &[Ipv4Addr], reply: Reply) -> io::Result<()> {
    of.iter().for_each(|server| servers.set(*server, node.address(), reply));
    Ok(())
}

/// As many at a time, each with half a request; who is thrown out comes again.
fn slow_clients(target: &str) {
    loop {
        let connections: Vec<_> =
            (0..1000).filter_map(|_| TcpStream::connect(target).ok()).collect();
        for mut connection in &connections {
            let _ = connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: a");
        }
        sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expected_alert_ships_and_the_nodes_are_fifty() {
        assert_eq!(FAULTS.iter().map(|fault| fault.nodes).sum::<usize>(), 50);
        for name in FAULTS.iter().flat_map(|fault| fault.expected).chain(&OF_THE_MACHINE) {
            assert!(fleet::ALERTS.iter().any(|alert| alert.name == *name), "{name}");
        }
        assert!(FAULTS.iter().all(|fault| fault.expected.is_sorted()));
    }
}
