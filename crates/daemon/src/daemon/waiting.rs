//! What a daemon does between two samples: it waits, reads the host's messages, and replies
//! to clients.

use std::time::Instant;

use keeper::CorrectionCause;
use keeper::event::Line;
use linux::wait::{Token, WaitUntil, Wake};

use super::Daemon;
use crate::error::DaemonError;
use crate::gate::ClockGate;
use crate::kept_clock::monotonic_ns;
use crate::status_socket::StatusSocket;

/// What wakes a daemon besides time and signals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens {
    host: Option<Token>,
    status: Option<Token>,
    gate: Option<Token>,
}

/// Waits for the next sample, reads the host's messages meanwhile, and
/// replies to who asks; whether to go on.
pub(super) fn wait(
    daemon: &mut Daemon,
    wait: &mut WaitUntil,
    tokens: Tokens,
    deadline: Instant,
    log: &mut impl FnMut(Line),
) -> Result<bool, DaemonError> {
    // A pause that ends just after a sample is seen at a third of the time.
    let third = deadline.saturating_duration_since(Instant::now()) / 3;
    let glances = daemon.looks_between().then_some([third * 2, third]).into_iter().flatten();
    let mut glances = glances.filter_map(|before| deadline.checked_sub(before));
    let mut glance = glances.next();
    loop {
        match wait.until(glance.unwrap_or(deadline)).map_err(DaemonError::Wait)? {
            Wake::Deadline if glance.is_some() && !daemon.has_moved() => glance = glances.next(),
            // A flood of messages does not keep it from its samples.
            Wake::Readable(token) if Some(token) == tokens.host && Instant::now() < deadline => {
                daemon.in_order(log, Daemon::read_host);
            }
            Wake::Readable(token) if Some(token) == tokens.status => {
                answer(daemon);
                let is_exhausted = daemon.asked.as_ref().is_some_and(StatusSocket::is_exhausted);
                wait.mute(tokens.status.filter(|_| is_exhausted));
                // Who asks all the time does not keep it from its samples.
                if Instant::now() >= deadline {
                    return Ok(true);
                }
            }
            Wake::Readable(token) if Some(token) == tokens.gate => {
                serve_gate(daemon);
                return Ok(true);
            }
            Wake::Reload => {
                daemon.is_reload_due = true;
                return Ok(true);
            }
            // The other descriptor: the clock was set. Or a flood of messages.
            Wake::Deadline | Wake::Readable(_) => return Ok(true),
            Wake::Signal | Wake::ReaderGone => return Ok(false),
        }
    }
}

/// Has `wait` wake for the clock set, for the host and for who asks, as
/// they are now.
pub(super) fn wake_for(daemon: &Daemon, wait: &mut WaitUntil) -> Result<Tokens, DaemonError> {
    wait.forget_all();
    // First the clock set: it is reported before the host's messages.
    if let Some(clock_set) = daemon.sampler.clock_set() {
        wait.add(clock_set).map_err(DaemonError::Wait)?;
    }
    let host = daemon.sources.iter().find_map(|source| source.host()).map(|host| wait.add(host));
    let status = daemon.asked.as_ref().map(|socket| wait.add(socket));
    let gate = daemon.gate.as_ref().and_then(|gate| gate.socket.as_ref());
    let gate = gate.map(|socket| wait.add(socket));
    Ok(Tokens {
        host: host.transpose().map_err(DaemonError::Wait)?,
        status: status.transpose().map_err(DaemonError::Wait)?,
        gate: gate.transpose().map_err(DaemonError::Wait)?,
    })
}

fn serve_gate(daemon: &mut Daemon) {
    let Some(gate) = &mut daemon.gate else { return };
    if gate.serve(monotonic_ns(), &mut daemon.events) {
        daemon.keeper.suspect(monotonic_ns(), CorrectionCause::GateWaits);
    }
}

/// Serves who asks.
fn answer(daemon: &mut Daemon) {
    if let Some(mut socket) = daemon.asked.take() {
        // It has numbers and text alone: its JSON form always exists.
        let needed_ns = socket.serve(|| {
            daemon.gate.iter_mut().for_each(ClockGate::refresh_groups);
            serde_json::to_string(&daemon.status()).unwrap_or_default() + "\n"
        });
        if let Some(bound_ns) = needed_ns {
            daemon.keeper.ask_for_bound(bound_ns, monotonic_ns());
        }
        daemon.asked = Some(socket);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread::sleep;
    use std::time::Duration;

    use keeper::Action;
    use pvclock::units::OffsetBound;

    use super::*;
    use crate::settings::{DiscoveredSource, Settings};
    use crate::status_socket::request;

    /// `parachron status --wait 10ms` would else hold for some seconds of each poll.
    #[test]
    fn servers_are_polled_sooner_for_who_needs_a_smaller_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        let mut settings = Settings::default();
        (settings.dry_run, settings.force) = (true, true);
        settings.sources.excluded = DiscoveredSource::ALL.to_vec();
        settings.sources.ntp = vec!["192.0.2.1".into()];
        settings.status_socket = Some(path.clone());
        let mut daemon = Daemon::new(settings).unwrap();
        let begun_ns = monotonic_ns();
        daemon.keeper.sample(begun_ns, &[]);
        while let Some(action) = daemon.keeper.next(begun_ns) {
            if let Action::Measure(_) = action {
                let at_monotonic_ns = begun_ns;
                let reply = OffsetBound { offset_ns: 0, bound_ns: 5_000_000, at_monotonic_ns };
                daemon.keeper.measured(0, begun_ns, Some(reply));
            }
        }
        let mut polls_within_s = |bound_ns| {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(&request(bound_ns)).unwrap();
            // Its connection, then its request.
            (0..2).for_each(|_| answer(&mut daemon));
            let mut reply = String::new();
            client.read_to_string(&mut reply).unwrap();
            assert!(reply.starts_with("{\"version\""), "{reply}");
            (daemon.keeper.next_poll_ns().unwrap() - begun_ns) / 1_000_000_000
        };
        sleep(Duration::from_millis(5));
        assert_eq!(polls_within_s(None), 64);
        assert_eq!(polls_within_s(Some(10_000_000)), 64, "it is right within that");
        assert!(polls_within_s(Some(5_000_000)) < 10, "the bound has grown since");
    }
}
