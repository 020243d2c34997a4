//! NTP servers, and the way to each: a request and its reply in one draw.

use units::OffsetBound;

use crate::random::{Purpose, Stream};
use crate::scenario::{Scenario, Server};
use crate::truth::Truth;

/// Servers of one guest.
pub(crate) const MOST: usize = 8;

/// What a reply shows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Reply {
    /// The server less the clock, ns.
    pub(crate) offset_ns: i64,
    /// Half the way there and back, and the server's root distance, ns.
    pub(crate) bound_ns: u64,
}

impl Reply {
    pub(crate) fn at(self, at_monotonic_ns: u64) -> OffsetBound {
        OffsetBound { offset_ns: self.offset_ns, bound_ns: self.bound_ns, at_monotonic_ns }
    }
}

/// The servers as one guest sees them.
#[derive(Debug)]
pub(crate) struct Network {
    servers: Vec<(Server, Stream)>,
    /// Until when a server lies, by how much, and until when none replies, ns.
    lies: [(i64, i64); MOST],
    down_until_ns: i64,
    /// Requests sent.
    pub(crate) requests: u64,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64, guest: u64) -> Self {
        let way = |(index, server): (u32, &Server)| {
            (*server, Stream::new(seed, guest, Purpose::Network(index)))
        };
        let servers = (0..).zip(&scenario.servers).map(way).collect();
        Self { servers, lies: [(0, 0); MOST], down_until_ns: 0, requests: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether the servers spread a leap second, and so announce none.
    pub(crate) fn smears(&self) -> bool {
        self.servers.iter().any(|(server, _)| server.smears)
    }

    pub(crate) fn lie(&mut self, server: u32, by_ns: i64, until_ns: i64) {
        if let Some(lie) = self.lies.get_mut(server as usize) {
            *lie = (until_ns, by_ns);
        }
    }

    pub(crate) fn fail(&mut self, until_ns: i64) {
        self.down_until_ns = until_ns;
    }

    /// How many lie now, beyond their bounds.
    pub(crate) fn liars(&self, now_ns: i64) -> usize {
        let lies = |(server, (until_ns, by_ns)): (&(Server, Stream), &(i64, i64))| {
            server.0.lies_s.0 != 0.0 || now_ns < *until_ns && *by_ns != 0
        };
        self.servers.iter().zip(&self.lies).filter(|it| lies(*it)).count()
    }

    /// How much further from the truth than its own bound one that lies may put
    /// what a majority agrees on: twice the bound of one that is right.
    pub(crate) fn lenience_ns(&self, now_ns: i64) -> i64 {
        // What the model of a request leaves out.
        const LEFT_OUT_NS: i64 = 2_000;
        if self.liars(now_ns) == 0 {
            return LEFT_OUT_NS;
        }
        let bound = |(server, _): &(Server, Stream)| {
            // A wait of 20 times the mean comes once in 10⁸ requests.
            server.delay_ms.ns() / 2 + 20 * server.jitter_ms.ns() + server.root_ms.ns()
        };
        2 * self.servers.iter().map(bound).max().unwrap_or(0)
    }

    /// Asks a server at true time `now_ns` by a clock that is ahead by `error_ns`
    /// then; nothing if no reply comes.
    ///
    /// With 4 ms there and 6 ms back the clock seems ahead by 1 ms more than it
    /// is, within a bound of 5 ms and the server's own. What the guest's rate adds
    /// over that time, some ns, is left out.
    pub(crate) fn ask(
        &mut self,
        index: usize,
        now_ns: i64,
        error_ns: i64,
        truth: &Truth,
    ) -> Option<Reply> {
        self.requests += 1;
        let (server, stream) = self.servers.get_mut(index)?;
        // Drawn whatever comes of them, so that a lost reply moves no other.
        let (lost, waits) = (stream.unit(), [stream.exponential(), stream.exponential()]);
        if lost < server.loss.0 || now_ns < self.down_until_ns {
            return None;
        }
        let delay_ns = server.delay_ms.0 * 1e6;
        let jitter_ns = server.jitter_ms.0 * 1e6;
        let there = delay_ns * server.there.0 + jitter_ns * waits[0];
        let back = delay_ns * (1.0 - server.there.0) + jitter_ns * waits[1];
        let (until_ns, by_ns) = self.lies[index];
        let mut ahead_ns = server.lies_s.ns() + if now_ns < until_ns { by_ns } else { 0 };
        if server.smears {
            ahead_ns += truth.smeared_ns(now_ns);
        }
        let offset_ns = ahead_ns - error_ns + ((there - back) / 2.0) as i64;
        let bound_ns = ((there + back) / 2.0) as u64 + server.root_ms.ns().unsigned_abs() + 1;
        Some(Reply { offset_ns, bound_ns })
    }
}
