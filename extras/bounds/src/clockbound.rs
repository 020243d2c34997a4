//! ClockBound's algorithm, as its daemon runs it for servers that a configuration names.

use clock_bound::daemon::clock_parameters::ClockParameters;
use clock_bound::daemon::clock_sync_algorithm::{FfSyncParams, ff};
use clock_bound::daemon::event::{Ntp, NtpData, Stratum};
use clock_bound::daemon::time::{Duration, Instant, TscCount};

use crate::world::{Exchange, ROOT_DELAY_NS, ROOT_DISPERSION_NS, World};

/// One algorithm for each server, and the parameters that were selected.
pub(crate) struct ClockBound {
    servers: Vec<ff::Ntp>,
    selected: Option<ClockParameters>,
    parameters: FfSyncParams,
}

impl ClockBound {
    pub(crate) fn new(servers: usize, poll_s: u64) -> Self {
        let parameters = FfSyncParams::default();
        let poll = Duration::from_secs(poll_s.cast_signed());
        let server = || ff::Ntp::new(poll, &parameters, &parameters.ntp);
        Self { servers: (0..servers).map(|_| server()).collect(), selected: None, parameters }
    }

    /// An exchange. Of two servers the one with the smaller bound is selected.
    pub(crate) fn feed(&mut self, server: usize, exchange: &Exchange) {
        let [before, after] = exchange.counter_ns.map(TscCount::new);
        let server_time = Instant::from_nanos(exchange.server_ns);
        let data = NtpData {
            server_recv_time: server_time,
            server_send_time: server_time,
            root_delay: Duration::from_nanos(ROOT_DELAY_NS as i64),
            root_dispersion: Duration::from_nanos(ROOT_DISPERSION_NS as i64),
            stratum: Stratum::TWO,
        };
        let event = Ntp::builder().counter_pre(before).counter_post(after).ntp_data(data).build();
        let Some(event) = event else { return };
        let Some(improved) = self.servers[server].feed(event) else { return };
        let growth = self.parameters.max_dispersion;
        let stays =
            self.selected.as_ref().is_some_and(|it| it.more_accurate_than(improved, growth));
        if !stays {
            self.selected = Some(improved.clone());
        }
    }

    /// The page's marker has changed.
    pub(crate) fn disrupt(&mut self) {
        self.servers.iter_mut().for_each(ff::Ntp::handle_disruption);
        self.selected = None;
    }

    /// By how much the time that a client of layout 3 computes is off, and by how much at most, ns:
    /// the bound grows by the oscillator's stated dispersion and the error of the period.
    pub(crate) fn known(&self, world: &World) -> Option<(u64, u64)> {
        let selected = self.selected.as_ref()?;
        let now = TscCount::new(world.counter_ns());
        let time_ns = selected.time_at(now).as_nanos();
        let elapsed = ((now - selected.tsc_count) * selected.period).as_seconds_f64();
        let rate = self.parameters.max_dispersion.get()
            + selected.period_max_error.get() / selected.period.get();
        let grown_ns = (elapsed * rate * 1e9) as i64;
        let bound_ns = selected.clock_error_bound.as_nanos() + grown_ns;
        Some((time_ns.abs_diff(world.truth_ns()), bound_ns.unsigned_abs()))
    }
}
