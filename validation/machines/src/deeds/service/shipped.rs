//! How soon the clock is right with the settings that ship, by a source of the host. The stops of
//! `stops.rs` are more than those settings correct in their time.

use std::time::Duration;

use crate::checks::{Check, Checks};
use crate::deeds::Place;
use crate::deeds::disruptions::channel::Output;
use crate::deeds::server::Server;
use crate::machine::Machine;
use crate::outcome::Result;

use super::host::{Host, Reason};
use super::other::{CHRONYD, follows};
use super::right::{from_now, soon_right};
use super::setup::INSTALL;
use super::stops::{ALONE_S, BESIDE_S, Pace, each, printed, stops_at};

/// As packaged there is one step per `min-interval`, 30 s, once three have followed each other. A
/// stop every 36 s, 31 s and the stop and the look: five take 3 minutes, and seven 252 s.
const PACE: Pace = Pace { calm: 5, most: 7, apart: Duration::from_secs(31) };

/// What an operator adds to the packaged file, of which every setting is a comment; and what is
/// set then.
const PORT: &str = "echo 'host-port = \"/dev/virtio-ports/org.parachron.time\"' \
    >>/etc/parachron/parachrond.toml";
const SET: &str = "grep -v -e '^#' -e '^$' /etc/parachron/parachrond.toml";

/// With the packaged configuration, to which the host's port alone is added: right as soon as with
/// steps at any time.
pub(crate) fn alone(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let (mut host, mut output) = start(place, machine, checks)?;
    let took = stops_at(PACE, machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, alone, as packaged", &took, PACE.calm, ALONE_S));
    Ok(())
}

/// The same beside chronyd, which follows a server.
pub(crate) fn beside(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let server = Server::start(&place.workshop.programs.join("ntp-server"))?;
    let (mut host, mut output) = start(place, machine, checks)?;
    machine.execute("systemctl stop parachrond")?;
    checks.push(follows(machine, &CHRONYD, &server)?);
    machine.execute("systemctl start parachrond; sleep 2")?;
    let took = stops_at(PACE, machine, &mut output, 0.0, || host.notice(Reason::Resumed))?;
    checks.push(each("the host's word, beside chronyd, as packaged", &took, PACE.calm, BESIDE_S));
    Ok(())
}

fn start(
    place: &Place<'_>,
    machine: &mut Machine,
    checks: &mut Checks,
) -> Result<(Host, Output), String> {
    let since = from_now(machine)?;
    machine.execute("systemctl stop chrony")?;
    machine.execute(INSTALL)?;
    machine.execute("udevadm trigger --settle -s virtio-ports")?;
    machine.execute(PORT)?;
    machine.execute("systemctl enable parachrond; systemctl restart parachrond; sleep 1")?;
    let mut host = Host::connect(&place.folder.join("host"))?;
    host.notice(Reason::Periodic)?;
    checks.push(soon_right("by the host's word, as packaged, at the start", machine, since)?);
    let set = machine.execute(SET)?;
    let is_shipped = set.trim() == "host-port = \"/dev/virtio-ports/org.parachron.time\"";
    let what = "service: the packaged configuration, and the host's port alone";
    checks.push(Check::new(what, set, is_shipped));
    Ok((host, printed(place, machine, "/dev/virtio-ports/output")?))
}
