//! NTP servers, and the way to each: a request and its reply in one draw.

use pvclock::units::OffsetBound;

use crate::random::{Purpose, RandomStream};
use crate::scenario::{Scenario, ScenarioServer, ns};
use crate::truth::Truth;

/// No offset is larger, ns: two numbers of it can be added.
const MOST_OFFSET_NS: i64 = 1 << 62;

/// What a reply shows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct SimulatedReply {
    /// The server less the clock, ns.
    pub(crate) offset_ns: i64,
    /// Half the way there and back, and the server's root distance, ns.
    pub(crate) bound_ns: u64,
}

impl SimulatedReply {
    pub(crate) fn offset_at(self, at_monotonic_ns: u64) -> OffsetBound {
        OffsetBound { offset_ns: self.offset_ns, bound_ns: self.bound_ns, at_monotonic_ns }
    }
}

/// The way to a server, in ns.
#[derive(Debug)]
struct Way {
    server: ScenarioServer,
    stream: RandomStream,
    there_ns: f64,
    back_ns: f64,
    jitter_ns: f64,
    root_ns: u64,
    lies_ns: i64,
    /// Until when it lies beside that, and by how much.
    lie: (i64, i64),
}

/// The servers as one guest sees them.
#[derive(Debug)]
pub(crate) struct SimulatedNetwork {
    servers: Vec<Way>,
    /// Until when none replies.
    down_until_ns: i64,
    /// Requests sent.
    pub(crate) requests: u64,
}

impl SimulatedNetwork {
    pub(crate) fn new(scenario: &Scenario, seed: u64, guest: u64) -> Self {
        let way = |(index, server): (u32, &ScenarioServer)| Way {
            server: *server,
            stream: RandomStream::new(seed, guest, Purpose::Network(index)),
            there_ns: server.delay_ms * 1e6 * server.there,
            back_ns: server.delay_ms * 1e6 * (1.0 - server.there),
            jitter_ns: server.jitter_ms * 1e6,
            root_ns: (server.root_ms * 1e6) as u64,
            lies_ns: ns(server.lies_s),
            lie: (0, 0),
        };
        let servers = (0..).zip(&scenario.servers).map(way).collect();
        Self { servers, down_until_ns: 0, requests: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether a server spreads a leap second, and so announces none.
    pub(crate) fn smears(&self, index: usize) -> bool {
        self.servers.get(index).is_some_and(|way| way.server.smears)
    }

    pub(crate) fn lie(&mut self, server: u32, by_ns: i64, until_ns: i64) {
        if let Some(way) = self.servers.get_mut(server as usize) {
            way.lie = (until_ns, by_ns);
        }
    }

    pub(crate) fn fail(&mut self, until_ns: i64) {
        self.down_until_ns = until_ns;
    }

    /// How many lie now, beyond their bounds.
    pub(crate) fn liars(&self, now_ns: i64) -> usize {
        let lies = |way: &&Way| way.lies_ns != 0 || now_ns < way.lie.0 && way.lie.1 != 0;
        self.servers.iter().filter(lies).count()
    }

    /// How much further from the truth than its own bound one that lies may put
    /// what a majority agrees on: twice the bound of one that is right.
    pub(crate) fn lenience_ns(&self, now_ns: i64) -> i64 {
        // What the model of a request leaves out.
        const LEFT_OUT_NS: i64 = 2_000;
        if self.liars(now_ns) == 0 {
            return LEFT_OUT_NS;
        }
        let bound = |Way { server, .. }: &Way| {
            // A wait of 20 times the mean comes once in 10⁸ requests.
            ns((server.delay_ms / 2.0 + 20.0 * server.jitter_ms + server.root_ms) / 1e3)
        };
        2 * self.servers.iter().map(bound).max().unwrap_or(0)
    }

    /// Asks a server at true time `now_ns` by a clock that is ahead by `error_ns`
    /// then; nothing if no reply comes.
    ///
    /// With 4 ms there and 6 ms back the clock seems ahead by 1 ms more than it
    /// is, within a bound of 5 ms and the server's own. What the guest's rate adds
    /// over that time, some ns, is left out. A reply that is read late was as long on its way.
    pub(crate) fn ask(
        &mut self,
        index: usize,
        (now_ns, late_ns): (i64, f64),
        error_ns: i64,
        truth: &Truth,
    ) -> Option<SimulatedReply> {
        self.requests += 1;
        let way = self.servers.get_mut(index)?;
        // Drawn whatever comes of them, so that a lost reply moves no other.
        let lost = way.stream.unit();
        let [there, back] =
            [way.there_ns, way.back_ns].map(|ns| ns + way.jitter_ns * way.stream.exponential());
        let back = back + late_ns;
        if lost < way.server.loss || now_ns < self.down_until_ns {
            return None;
        }
        let mut ahead_ns = way.lies_ns + if now_ns < way.lie.0 { way.lie.1 } else { 0 };
        if way.server.smears {
            ahead_ns += truth.smeared_ns(now_ns);
        }
        // NTP's offsets are of 136 years at most.
        let offset_ns = ahead_ns
            .saturating_sub(error_ns)
            .saturating_add(((there - back) / 2.0) as i64)
            .clamp(-MOST_OFFSET_NS, MOST_OFFSET_NS);
        let bound_ns = ((there + back) / 2.0) as u64 + way.root_ns + 1;
        Some(SimulatedReply { offset_ns, bound_ns })
    }
}
