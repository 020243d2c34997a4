//! Which sources are to be polled now.

use super::Keeper;
use super::polled::Polled;

/// After a server moved against the clock so many polls come in a hurry, each after
/// this part of the interval, to tell an absence from a wrong rate. One that goes on
/// is no reason to hurry on.
const HURRIED_POLLS: u32 = 16;
const HURRIED: u64 = 8;

impl Keeper {
    /// After how long servers are polled again.
    pub(super) fn poll_ns(&self) -> u64 {
        self.policy.poll_ns / if self.hurried == 0 { 1 } else { HURRIED }
    }

    /// The next polls come in a hurry.
    pub(super) fn hurry(&mut self, now_ns: u64) {
        self.hurried = HURRIED_POLLS;
        let due_ns = now_ns.saturating_add(self.poll_ns());
        for source in self.sources.iter_mut().filter(|source| source.kind.is_server()) {
            source.due_ns = source.due_ns.min(due_ns);
        }
    }

    /// A local source to be polled now.
    pub(super) fn wanted_here(&mut self) -> Option<usize> {
        let is_here = |source: &Polled| source.is_wanted && source.kind.is_local();
        let index = self.sources.iter().position(is_here)?;
        self.sources[index].poll();
        Some(index)
    }

    /// When the next server is to be polled, CLOCK_MONOTONIC; `None` without any.
    pub fn next_poll_ns(&self) -> Option<u64> {
        let servers = self.sources.iter().filter(|source| source.kind.is_server());
        servers.map(|source| source.due_ns).min()
    }

    /// The servers to be polled now, if the rate limit allows all of them: what
    /// takes several that agree takes them in one sample.
    pub(super) fn wanted(&mut self, now_ns: u64) -> Vec<usize> {
        let all = self.sources.iter().enumerate();
        let wanted: Vec<usize> =
            all.filter(|(_, source)| source.is_wanted).map(|(index, _)| index).collect();
        let allowed = self.requests.take_all(wanted.len() as u32, now_ns);
        self.hurried = self.hurried.saturating_sub(u32::from(!wanted.is_empty()));
        for index in &wanted {
            self.sources[*index].poll();
        }
        let Err(wait_ns) = allowed else { return wanted };
        // Together, or they would take turns, and never agree.
        let due_ns = now_ns.saturating_add(wait_ns);
        let servers = self.sources.iter_mut().enumerate();
        for (index, source) in servers.filter(|(_, source)| source.kind.is_server()) {
            let was_due_ns = if wanted.contains(&index) { u64::MAX } else { source.due_ns };
            source.due_ns = was_due_ns.min(due_ns);
        }
        Vec::new()
    }
}
