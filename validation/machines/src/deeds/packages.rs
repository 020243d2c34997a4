//! Our own packages on a real systemd: installed, configured, upgraded, removed and
//! purged. `cargo xtask dist` made them; the upgrade is the same package by a
//! later version.

use std::ops::RangeInclusive;

use crate::checks::Checks;
use crate::machine::Machine;
use crate::outcome::Result;

use super::Place;
use super::server::Server;

const CONFIGURATION: &str = "/etc/parachron/parachrond.toml";

/// Nothing is looked for, and no server is named, for 40 s. The exit code is the last one's, but for
/// the moment of a start.
const WITHOUT_A_SOURCE: &str = "printf 'no-source = [\"vmclock\", \"phc\", \"rtc\"]\\n' \
    >/etc/parachron/parachrond.toml; systemctl stop parachrond; \
    systemctl start --no-block parachrond; sleep 40; \
    systemctl show -p NRestarts parachrond; for i in $(seq 10); do \
    systemctl show -p ExecMainStatus parachrond | grep '=4$' && break; sleep 0.2; done; \
    journalctl -u parachrond -n 7 -o cat; systemctl stop parachrond";

/// How often it is started again meanwhile: after 10 and 20 s by a systemd of 254 or
/// later, else each 10 s; less often where a start takes long.
const RESTARTS: RangeInclusive<u32> = 1..=4;

/// Whether what [`WITHOUT_A_SOURCE`] printed is so.
fn backs_off(said: &str) -> bool {
    let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let restarts = value("NRestarts=").and_then(|count| count.parse().ok());
    restarts.is_some_and(|restarts| RESTARTS.contains(&restarts))
        && value("ExecMainStatus=") == Some("4")
        && said.contains("no time source")
}

/// A later version of each package, packed without a compression that takes long.
const LATER: &str = "cd /tmp && for name in parachron parachrond; do \
    rm -rf later && /usr/bin/dpkg-deb -R /opt/packages/${name}_*_amd64.deb later && \
    sed -i 's/^Version: .*/&+1/' later/DEBIAN/control && \
    /usr/bin/dpkg-deb -Znone -b later /tmp/${name}-later.deb || exit 1; done";

/// All files that are named after us, but for what the machine brought along.
const LEFT: &str = "find / -xdev -name '*parachron*' ! -path '/opt/*' ! -path '/tmp/*' \
    ! -path '/proc/*' ! -path '/sys/*' ! -path '/var/log/*' ! -path '/run/systemd/*'; \
    find /run -name '*parachron*' ! -path '/run/systemd/*'; \
    getent passwd parachron; /usr/bin/dpkg -l 'parachron*' 2>/dev/null | grep -v '^un' | grep parachron; true";

/// The profile enforced over a reload and a restart, and the service's work of ten seconds.
/// What the profile denies is in the kernel's log, as is shown by a file that it does not name.
const CONFINED: &str = "mkdir -p /tmp/apparmor && tar -C /tmp/apparmor -xf /opt/packages/apparmor.tar && \
    /tmp/apparmor/sbin/apparmor_parser --replace --skip-cache --base /tmp/apparmor/etc/apparmor.d \
    /etc/apparmor.d/usr.bin.parachrond 2>&1 && timeout 15 systemctl restart parachrond && sleep 10 && \
    timeout 15 systemctl reload parachrond && timeout 15 systemctl restart parachrond && \
    cat /proc/$(systemctl show -p MainPID --value parachrond)/attr/current && \
    systemctl is-active parachrond && parachron status | head -n 1; \
    dmesg | grep 'apparmor=\"DENIED\"' | tail -n 5; \
    parachrond --check --config /opt/packages/apparmor.tar >/dev/null 2>&1; \
    dmesg | grep 'apparmor=\"DENIED\"' | grep -c apparmor.tar";

/// A mistake in our unit. systemd before 254 does not know two of its keys, and says
/// so, as the unit does.
fn is_fault(line: &str) -> bool {
    line.contains("parachrond.service:") && !line.contains("Unknown key 'Restart")
}

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let servers = Server::two(place.workshop)?;
    let ntp: Vec<_> = servers.iter().map(|it| format!("\"10.0.2.2:{}\"", it.port)).collect();
    // Those of the initramfs were put there past dpkg.
    machine.execute("rm -f /usr/bin/parachron /usr/bin/parachrond")?;
    let mut step =
        |machine: &mut Machine, what: &str, line: &str, is_right: &dyn Fn(&str) -> bool| {
            // busybox has a dpkg of its own, and looks for no other by name.
            let line = format!("export PATH=/usr/sbin:/usr/bin; {{ {line}; }} || echo FAILED");
            let what = format!("packages: {what}");
            let is_whole = |said: &str| !said.contains("FAILED") && is_right(said);
            checks.push(machine.says(what, &line, is_whole)?);
            Ok::<(), String>(())
        };
    step(
        machine,
        "dpkg installs both",
        "/usr/bin/dpkg -i /opt/packages/*_amd64.deb 2>&1",
        &|_| true,
    )?;
    step(machine, "the doctor runs", "parachron doctor 2>&1 | head -n 1", &|said| {
        said.contains("time is right") || said.starts_with("The clock ")
    })?;
    let known = "getent passwd parachron && systemd-analyze verify --man=no \
                 parachrond.service 2>&1 && parachrond --check && man -w 1 2>/dev/null; \
                 systemctl is-enabled parachrond; systemctl is-active parachrond; true";
    step(machine, "user and unit exist, and nothing runs yet", known, &|said| {
        said.contains("/nologin")
            && said.ends_with("disabled\ninactive")
            && !said.lines().any(is_fault)
    })?;
    let start = format!(
        "printf 'ntp = [{}]\\n' >>{CONFIGURATION} && systemctl enable --now parachrond 2>&1 && \
         sleep 3 && systemctl is-active parachrond && parachron status | head -n 3",
        ntp.join(", ")
    );
    step(machine, "configured, it runs", &start, &|said| said.contains("\nactive"))?;
    let truth = place.row.truth()?;
    let findings = "for i in $(seq 20); do adjtimex | grep -q UNSYNC || break; sleep 0.5; done; \
        parachron doctor --format json | sed '/\"checked\"/,$d' | grep -o '\"rule\": *\"[^\"]*' | \
        cut -d '\"' -f 4";
    step(machine, "configured: the doctor finds no fault of the clock", findings, &|said| {
        !said.is_empty() && said.lines().all(|rule| super::service::is_the_machines(truth, rule))
    })?;
    step(machine, "confined by AppArmor, nothing is denied", CONFINED, &|said| {
        let denied: Vec<&str> = said.lines().filter(|line| line.contains("DENIED")).collect();
        said.contains("parachrond (enforce)\nactive") && denied.is_empty() && said.ends_with("\n1")
    })?;
    step(machine, "a later version is made", LATER, &|_| true)?;
    let upgrade = format!(
        "before=$(sha256sum <{CONFIGURATION}); pid=$(systemctl show -p MainPID --value parachrond); \
         /usr/bin/dpkg -i /tmp/*-later.deb </dev/null 2>&1 && \
         [ \"$before\" = \"$(sha256sum <{CONFIGURATION})\" ] && echo kept && sleep 2 && \
         systemctl is-active parachrond && \
         [ \"$pid\" != \"$(systemctl show -p MainPID --value parachrond)\" ] && echo restarted"
    );
    step(
        machine,
        "upgraded: the configuration is kept, the daemon is the new one",
        &upgrade,
        &|said| said.contains("kept\nactive\nrestarted"),
    )?;
    let what = "without a source: exit code 4, and started again 1 to 4 times in 40 s";
    step(machine, what, WITHOUT_A_SOURCE, &backs_off)?;
    let remove = format!(
        "/usr/bin/dpkg -r parachrond parachron 2>&1; ls {CONFIGURATION} && [ ! -e /usr/bin/parachrond ] && \
         ! systemctl is-active parachrond"
    );
    step(machine, "removed: it is stopped, the configuration stays", &remove, &|said| {
        said.ends_with("inactive") || said.ends_with("unknown") || said.ends_with("failed")
    })?;
    step(machine, "dpkg purges both", "/usr/bin/dpkg -P parachrond parachron 2>&1", &|_| true)?;
    step(machine, "purged: nothing is left", LEFT, &str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_never_and_another_reason_are_wrong() {
        let said = |restarts: u32, code: u8, why: &str| {
            backs_off(&format!("NRestarts={restarts}\nExecMainStatus={code}\nparachrond: {why}\n"))
        };
        assert!(said(2, 4, "no time source") && said(4, 4, "no time source"));
        assert!(!said(31, 4, "no time source") && !said(0, 4, "no time source"));
        assert!(!said(2, 3, "no time source") && !said(2, 4, "Read-only file system"));
        assert!(!backs_off(""));
    }
}
