//! chronyd, as Debian has it, which disciplines the clock.

use std::time::Duration;

use crate::checks::Check;
use crate::deeds::server::Server;
use crate::machine::Machine;

/// Configures it for one server, `{port}`, and waits until it follows that. Until it knows the
/// frequency to 100 ppm it polls each second. Then it steps no more: Debian's file allows that
/// for the first three answers.
const FOLLOW: &str = "sed -i '/^pool/d; /^server/d; /^sourcedir/d' /etc/chrony/chrony.conf && \
    grep '^makestep 1 3' /etc/chrony/chrony.conf && \
    echo 'server 10.0.2.2 port {port} iburst minpoll 6 maxpoll 6' >>/etc/chrony/chrony.conf && \
    systemctl restart chrony && sleep 1; \
    chronyc minpoll 10.0.2.2 0 && chronyc maxpoll 10.0.2.2 0 && \
    chronyc waitsync 90 0 100 1 >/dev/null && \
    chronyc maxpoll 10.0.2.2 6 && chronyc minpoll 10.0.2.2 6";

/// What it thinks.
const THINKS: &str = "chronyc -c tracking; chronyc -c sources";

/// Prints its frequency, ppm, how well it knows it, when it was measured, and what is residual
/// (`frequency.rs`).
pub(super) const FREQUENCY: &str = "chronyc -c tracking | awk -F , '{print $8, $10, $4, $9}'";

/// Until it has done as it is told.
pub(super) const POLLS: Duration = Duration::from_secs(12);

/// As often it acts by itself: so rarely that a step within a second is not its own.
pub(super) const ACTS_EACH: Duration = Duration::from_secs(64);

/// Has it poll each second.
pub(super) const HURRY: &str =
    "chronyc minpoll 10.0.2.2 0 && chronyc maxpoll 10.0.2.2 0 && chronyc burst 3/5";

/// And again as before. Its burst is over then, five requests at most two seconds apart: chronyd
/// does not begin the burst that ours commands while it is in one (NCR_InitiateSampleBurst,
/// ntp_core.c).
pub(super) const CALM: &str =
    "sleep 10 && chronyc maxpoll 10.0.2.2 6 && chronyc minpoll 10.0.2.2 6";

/// Has it follow a server.
pub(super) fn follows(machine: &mut Machine, server: &Server) -> Result<Check, String> {
    let follow = FOLLOW.replace("{port}", &server.port.to_string());
    let follows = machine.line.run("follow", 150, &follow)?;
    let thinks = thinks(machine)?;
    Ok(Check::new(
        "service: chronyd follows the server",
        format!("{}{thinks}", follows.stderr),
        follows.status == 0,
    ))
}

/// What it says of the clock.
pub(super) fn thinks(machine: &mut Machine) -> Result<String, String> {
    Ok(machine.line.run("thinks", 30, THINKS)?.stdout)
}
