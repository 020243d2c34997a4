//! What an ordinary user tries against the service.

use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::Result;

use super::operator::process;
use super::setup::configure;

/// A user of no group. By their paths: busybox, whose shell prefers its own, has a
/// setpriv that knows no users, and fewer options of other tools.
pub(super) const USER: &str =
    "/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups /bin/busybox sh -c";

/// Each line must be refused. `{pid}` is the service's process, `{systemd}` and `{date}`
/// objects on the system's bus.
const TRIES: &str = include_str!("users.tries");

const SYSTEMD: &str = "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 \
    org.freedesktop.systemd1.Manager";
const DATE: &str = "busctl call org.freedesktop.timedate1 /org/freedesktop/timedate1 \
    org.freedesktop.timedate1";

/// What a user may do, so that a refusal is not the shell's; and what a program
/// says that was not run, or not as it was meant.
const ALLOWED: &str = "id -u; parachron status >/dev/null && echo asked";
const NOT_RUN: [&str; 5] = ["not found", "applet", "usage", "Usage", "nrecognized option"];

/// None is allowed, and the process is the same.
pub(super) fn out_of_users_reach(machine: &mut Machine) -> Result<Check, String> {
    let pid = process(machine)?;
    let control = machine.execute(&format!("{USER} '{ALLOWED}'"))?;
    let (mut allowed, mut not_run) = (Vec::new(), Vec::new());
    for attempt in TRIES.lines() {
        let attempt = attempt.replace("{systemd}", SYSTEMD).replace("{date}", DATE);
        let attempt = attempt.replace("{pid}", &pid);
        let record =
            machine.line.run("user", 30, &format!("{USER} '{attempt}' 2>&1 </dev/null"))?;
        if record.status == 0 {
            allowed.push(attempt);
        } else if NOT_RUN.iter().any(|words| record.stdout.contains(words)) {
            not_run.push(format!("{attempt}: {}", record.stdout.trim()));
        }
    }
    let found = format!(
        "{} tried, allowed: {}; not run: {}",
        TRIES.lines().count(),
        allowed.join("; "),
        not_run.join("; ")
    );
    let same = process(machine)? == pid && control == "65534\nasked";
    let what = "service: an ordinary user stops and moves nothing";
    Ok(Check::new(what, found, allowed.is_empty() && not_run.is_empty() && same))
}

/// A message to the host's socket, from the user and then from root: only root's is
/// heard.
pub(super) fn tells_the_host_socket(machine: &mut Machine) -> Result<Check, String> {
    let tell = r#"perl -MSocket -e "socket S, PF_UNIX, SOCK_DGRAM, 0;
        send S, q(resumed), 0, sockaddr_un(q(/run/parachron/host.sock)) or die q(refused)""#;
    let tell = tell.replace('\n', " ");
    let heard = "journalctl -u parachrond -o cat PARACHRON_EVENT=host-resumed | wc -l";
    let line = format!("{USER} '{tell}' 2>&1; sleep 2; {heard}; {tell}; sleep 2; {heard}");
    let said = machine.line.run("host", 60, &line)?.stdout;
    let counts: Vec<&str> = said.lines().filter(|it| it.parse::<u32>().is_ok()).collect();
    let what =
        "service: a message of an ordinary user on the host's socket is ignored, and root's is not";
    Ok(Check::new(what, said.trim(), counts == ["0", "1"]))
}

/// By bash: what wget of the initramfs' busybox left here was "Segmentation fault".
const SCRAPE: &str = "timeout 40 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9975 && \
    printf \"GET /metrics HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n\" >&3 && cat <&3 >/tmp/metrics'";

/// The port of the metrics, which the user has before the service starts: the clock
/// is kept, and the port taken once it is free.
pub(super) fn holds_a_port(machine: &mut Machine, configuration: &str) -> Result<Check, String> {
    configure(machine, &format!("{configuration}metrics = \"127.0.0.1:9975\"\n"))?;
    let holds = "timeout 60 perl -MIO::Socket::INET -e \"push @all, IO::Socket::INET->new(\
        LocalAddr => q(127.0.0.1:9975), Listen => 5) or die; sleep 60\" >/dev/null 2>&1 &";
    let line = format!(
        "{USER} '{holds}'; sleep 2; systemctl restart parachrond; sleep 3; \
         systemctl is-active parachrond; journalctl -u parachrond -n 9 -o cat | grep 'cannot listen'; \
         /usr/bin/pkill -KILL -u 65534; for i in $(seq 12); do sleep 2; \
         {SCRAPE} 2>/tmp/refused && break; done; \
         grep -c '^parachron_' /tmp/metrics || cat /tmp/refused"
    );
    let said = machine.line.run("port", 150, &line)?.stdout;
    let lines: Vec<&str> = said.lines().collect();
    let passed = matches!(lines[..], ["active", told, metrics]
        if told.contains("retrying every 10 s") && metrics.parse().is_ok_and(|many: u32| many > 0));
    let what = "service: a user holds the port of its metrics: the clock is kept, and the port taken after";
    Ok(Check::new(what, said.trim(), passed))
}
