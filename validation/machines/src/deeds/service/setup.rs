//! How the service is installed and configured, and what counts as right.

use std::time::Duration;

use crate::deeds::server::Server;
use crate::machine::Machine;

/// The configuration, with the servers' ports.
pub(super) const CONFIGURATION: &str =
    "ntp = [{servers}]\npoll = \"8s\"\nmin-interval = \"1s\"\nburst = 20\n";
pub(super) const CONFIGURATION_FILE: &str = "/etc/parachron/parachrond.toml";

/// What the service is told: the port, and steps at any time.
pub(super) const BY_THE_PORT: &str = "host-port = \"/dev/virtio-ports/org.parachron.time\"\n\
    min-interval = \"1s\"\nburst = 100\n";

/// As packaging/README.md has it, from where the machine has those files.
pub(super) const INSTALL: &str = "cd /opt/packaging && \
    install -D -m 644 parachrond.toml /etc/parachron/parachrond.toml && \
    install -m 644 parachron.sysusers /usr/lib/sysusers.d/parachron.conf && \
    install -m 644 90-parachron.rules /usr/lib/udev/rules.d/ && \
    install -m 644 parachrond.service /etc/systemd/system/ && \
    install -D -m 755 parachrond-generator /etc/systemd/system-generators/parachrond && \
    systemd-sysusers && udevadm control --reload && systemctl daemon-reload";

/// How far off a clock that is right may be, beside what is known of it from
/// outside, s: the round trips of an emulated network card.
pub(super) const RIGHT_S: f64 = 0.05;

/// How long the machine is stopped, one after the other.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// Times in which nothing may happen.
pub(super) const WAIT: Duration = Duration::from_secs(8);

pub(super) fn configuration(servers: &[Server]) -> String {
    let named: Vec<String> =
        servers.iter().map(|server| format!("\"10.0.2.2:{}\"", server.port)).collect();
    CONFIGURATION.replace("{servers}", &named.join(", "))
}

pub(super) fn configure(machine: &mut Machine, text: &str) -> Result<(), String> {
    // The line takes one line.
    let text = text.replace('\n', "\\n");
    machine.execute(&format!("printf '%b' '{text}' >{CONFIGURATION_FILE}")).map(drop)
}
