//! Another daemon that disciplines the clock, as Debian has it.

use std::time::Duration;

use crate::checks::Check;
use crate::deeds::server::Server;
use crate::machine::Machine;

/// One of them.
#[derive(Debug)]
pub(crate) struct Other {
    pub(super) name: &'static str,
    /// Configures it for one server, `{port}`, and waits until it follows that.
    follow: &'static str,
    /// What it thinks.
    thinks: &'static str,
    /// Prints its frequency, ppm, how well it knows it, and when it was measured
    /// (`frequency.rs`).
    pub(super) frequency: &'static str,
    /// It says how well it knows it.
    pub(super) states_frequency_error: bool,
    /// It can be told no other port than NTP's.
    pub(super) at_ntps_port: bool,
    /// Until it has polled its server again, and has acted on that. chronyd does as it is
    /// told, and systemd-timesyncd when the clock was set.
    pub(super) polls: Duration,
    /// As often it acts by itself: so rarely that a step within a second is not its own.
    pub(super) acts_each: Duration,
    /// Has it poll each second, where it can be told to, and again as before.
    pub(super) hurry: &'static str,
    pub(super) calm: &'static str,
}

pub(crate) const CHRONYD: Other = Other {
    name: "chronyd",
    // Until it knows the frequency to 100 ppm it polls each second. Then it steps no more:
    // Debian's file allows that for the first three answers.
    follow: "sed -i '/^pool/d; /^server/d; /^sourcedir/d' /etc/chrony/chrony.conf && \
        grep '^makestep 1 3' /etc/chrony/chrony.conf && \
        echo 'server 10.0.2.2 port {port} iburst minpoll 6 maxpoll 6' >>/etc/chrony/chrony.conf && \
        systemctl restart chrony && sleep 1; \
        chronyc minpoll 10.0.2.2 0 && chronyc maxpoll 10.0.2.2 0 && \
        chronyc waitsync 90 0 100 1 >/dev/null && \
        chronyc maxpoll 10.0.2.2 6 && chronyc minpoll 10.0.2.2 6",
    thinks: "chronyc -c tracking; chronyc -c sources",
    frequency: "chronyc -c tracking | awk -F , '{print $8, $10, $4, $9}'",
    states_frequency_error: true,
    at_ntps_port: false,
    polls: Duration::from_secs(12),
    acts_each: Duration::from_secs(64),
    hurry: "chronyc minpoll 10.0.2.2 0 && chronyc maxpoll 10.0.2.2 0 && chronyc burst 3/5",
    // Its burst is over then, five requests at most two seconds apart: chronyd does not begin
    // the burst that ours commands while it is in one (NCR_InitiateSampleBurst, ntp_core.c).
    calm: "sleep 10 && chronyc maxpoll 10.0.2.2 6 && chronyc minpoll 10.0.2.2 6",
};

pub(crate) const TIMESYNCD: Other = Other {
    name: "systemd-timesyncd",
    follow: "printf '[Time]\\nNTP=10.0.2.2\\nPollIntervalMinSec=64\\nPollIntervalMaxSec=64\\n' \
        >/etc/systemd/timesyncd.conf && systemctl restart systemd-timesyncd && \
        for i in $(seq 60); do [ $(timedatectl show -p NTPSynchronized --value) = yes ] && \
        sleep 20 && exit 0; sleep 1; done; exit 1",
    thinks: "timedatectl show-timesync | grep -E 'ServerName|Poll|NTPMessage|Freq'; \
        journalctl -u systemd-timesyncd -n 3 -o cat",
    frequency: OF_THE_KERNEL,
    states_frequency_error: false,
    at_ntps_port: true,
    polls: Duration::from_secs(20),
    acts_each: Duration::from_secs(66),
    hurry: "true",
    calm: "true",
};

pub(crate) const NTPSEC: Other = Other {
    name: "ntpsec",
    // Without a frequency it would learn one for 15 minutes, and say unsynchronised.
    follow: "sed -i '/^pool/d; /^tos/d' /etc/ntpsec/ntp.conf && \
        echo 'server 10.0.2.2 iburst minpoll 6 maxpoll 6' >>/etc/ntpsec/ntp.conf && \
        systemctl stop ntpsec && echo 0.000 >/var/lib/ntpsec/ntp.drift && \
        chown ntpsec:ntpsec /var/lib/ntpsec/ntp.drift && systemctl start ntpsec && \
        for i in $(seq 100); do adjtimex | grep -q 'status:.*UNSYNC' || { sleep 10; exit 0; }; \
        sleep 1; done; ntpq -pn 127.0.0.1; exit 1",
    thinks: "ntpq -pn 127.0.0.1 | tail -n 1; ntpq -c 'rv 0 stratum,offset,frequency,sys_jitter,leap' 127.0.0.1; \
        journalctl -u ntpsec -n 2 -o cat",
    frequency: OF_THE_KERNEL,
    states_frequency_error: false,
    at_ntps_port: true,
    polls: Duration::from_secs(70),
    acts_each: Duration::from_secs(66),
    hurry: "true",
    calm: "true",
};

pub(crate) const NTPD_RS: Other = Other {
    name: "ntpd-rs",
    // It polls more rarely by itself once it is sure, each 64 s at the most.
    follow: "printf '[observability]\\nobservation-path = \"/var/run/ntpd-rs/observe\"\\n\
        [[source]]\\nmode = \"server\"\\naddress = \"10.0.2.2:{port}\"\\n[source-defaults]\\n\
        initial-poll-interval = 4\\npoll-interval-limits = { min = 4, max = 6 }\\n\
        [synchronization]\\nminimum-agreeing-sources = 1\\n' >/etc/ntpd-rs/ntp.toml && \
        systemctl restart ntpd-rs && for i in $(seq 80); do \
        adjtimex | grep -q 'status:.*UNSYNC' || { sleep 40; exit 0; }; sleep 1; done; exit 1",
    thinks: "ntp-ctl status; journalctl -u ntpd-rs -n 2 -o cat",
    // Its log: "frequency: 0+-100ppm".
    frequency: "echo $(adjtimex | awk '/freq.adjust/{print $3/65536}') \
        $(journalctl -u ntpd-rs -n 60 -o short-unix | \
        sed -n 's/^\\([0-9.]*\\) .*frequency: [^ ]*+-\\([0-9.]*\\)ppm.*/\\2 \\1/p' | tail -n 1)",
    states_frequency_error: true,
    at_ntps_port: false,
    polls: Duration::from_secs(70),
    acts_each: Duration::from_secs(16),
    hurry: "true",
    calm: "true",
};

impl Other {
    pub(super) fn is_chronyd(&self) -> bool {
        self.name == CHRONYD.name
    }
}

/// What it has given the kernel. chronyd slews by that as well.
const OF_THE_KERNEL: &str = "adjtimex | awk '/freq.adjust/{print $3/65536}'";

/// Has it follow a server.
pub(super) fn follows(
    machine: &mut Machine,
    other: &Other,
    server: &Server,
) -> Result<Check, String> {
    let follow = other.follow.replace("{port}", &server.port.to_string());
    let follows = machine.line.run("follow", 150, &follow)?;
    let thinks = thinks(machine, other)?;
    Ok(Check::new(
        format!("service: {} follows the server", other.name),
        format!("{}{thinks}", follows.stderr),
        follows.status == 0,
    ))
}

/// What it says of the clock.
pub(super) fn thinks(machine: &mut Machine, other: &Other) -> Result<String, String> {
    Ok(machine.line.run("thinks", 30, other.thinks)?.stdout)
}
