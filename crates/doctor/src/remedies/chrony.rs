//! What to change in chrony's configuration.

use facts::hardware::{Phc, PhcDriver, PhcTime};
use facts::steering::{TimeKeeper, TimeKeeperKind};

use super::{Family, READ_ONLY, family, install_chrony, start, unit};
use crate::case::Case;
use crate::finding::Remedy;

/// Add a line to chrony's configuration, and restart chrony.
pub(crate) fn chrony_line(case: &Case<'_>, what: &str, line: &str) -> Remedy {
    let (conf, unit) = chrony_files(case);
    let command = match family(case) {
        Some(Family::Alpine) => "echo {} | sudo tee -a {} && sudo rc-service {} restart",
        _ => "echo {} | sudo tee -a {} && sudo systemctl restart {}",
    };
    Remedy::quoting(what, command, &[line, conf, unit])
}

/// Replace what `from`, a pattern of sed's, matches in chrony's configuration.
pub(crate) fn chrony_edit(case: &Case<'_>, what: &str, edit: &str) -> Remedy {
    let (conf, unit) = chrony_files(case);
    let command = match family(case) {
        Some(Family::Alpine) => "sudo sed -i {} {} && sudo rc-service {} restart",
        _ => "sudo sed -i {} {} && sudo systemctl restart {}",
    };
    Remedy::quoting(what, command, &[edit, conf, unit])
}

/// Let chronyd check its configuration.
pub(crate) fn chrony_check(case: &Case<'_>) -> Remedy {
    let what = "Correct that line, then let chronyd check its configuration.";
    let (conf, _) = chrony_files(case);
    Remedy::quoting(what, "sudo chronyd -p -f {}", &[conf]).changes(READ_ONLY)
}

/// The configuration that chronyd was read to have, and its unit.
fn chrony_files<'a>(case: &Case<'a>) -> (&'a str, &'a str) {
    let conf = match family(case) {
        Some(Family::Debian) => "/etc/chrony/chrony.conf",
        _ => "/etc/chrony.conf",
    };
    let read = case.chrony_file().ok().and_then(|config| config.file.as_deref());
    (read.unwrap_or(conf), unit(case, TimeKeeperKind::Chrony))
}

/// As [`follow_host`], where chronyd does not run yet.
pub(crate) fn start_following_host(case: &Case<'_>, phc: &Phc) -> Vec<Remedy> {
    let is_chrony = |keeper: &TimeKeeper| keeper.kind == TimeKeeperKind::Chrony && keeper.installed;
    let mut steps = match case.keepers() {
        Ok(all) if all.iter().any(is_chrony) => start(case, TimeKeeperKind::Chrony),
        _ => vec![install_chrony(case)],
    };
    let last = steps.pop().map(|last| last.and(follow_host(case, phc)));
    steps.extend(last.into_iter().flatten());
    steps
}

/// Make chrony follow the host's clock by its PTP device.
pub(crate) fn follow_host(case: &Case<'_>, phc: &Phc) -> Remedy {
    let path = phc.path();
    let time = case.phc_time(phc);
    let options = match (phc.driver(), time) {
        // A vmclock of an unknown kernel counts UTC or TAI.
        (_, PhcTime::Unknown | PhcTime::Monotonic) => {
            return Remedy::advice(format!(
                "Compare {path} with the system clock (phc_ctl {path} cmp) before chrony uses it: \
                 it shows the host's clock, but not whether it counts UTC or TAI, which are 37 s \
                 apart."
            ));
        }
        // TAI − UTC since 2017 (IERS Bulletin C).
        (_, PhcTime::Tai) => "poll 3 dpoll -2 offset -37",
        // AWS: "Set the time reference on your EC2 instance".
        (PhcDriver::Ena, _) => "poll 0 delay 0.000010 prefer",
        // Azure: "Time sync for Linux VMs". The host's stratum is not carried
        // over, so it is stated.
        (PhcDriver::HyperV, _) => "poll 3 dpoll -2 offset 0 stratum 2",
        // Firecracker: FAQ, "How can I make sure the guest's clock is right".
        _ => "poll 3 dpoll -2 offset 0",
    };
    let what = match time {
        PhcTime::Tai => {
            "Make chrony follow the host's clock, which counts TAI here: 37 s ahead of UTC until \
             the next leap second."
        }
        PhcTime::SmearedUtc => "Make chrony follow the host's clock, which smears leap seconds.",
        _ => "Make chrony follow the host's clock.",
    };
    chrony_line(case, what, &format!("refclock PHC {path} {options}"))
        .changes(change_with_servers(case, time))
}

/// What following a PTP clock changes: beside servers that smear, two scales.
fn change_with_servers(case: &Case<'_>, time: PhcTime) -> &'static str {
    let smearing = case
        .chrony_config()
        .is_some_and(|config| config.servers.iter().any(|server| server.smears));
    if smearing && time != PhcTime::SmearedUtc {
        "chrony's configuration. Its NTP servers smear leap seconds and this clock may not: remove \
         the servers' lines, or add `prefer` to this clock's line"
    } else {
        "chrony's configuration; it needs no network for this source"
    }
}

/// Debian's and Red Hat's chrony.conf allow steps in the first three updates
/// only, long before a pause.
pub(crate) fn makestep(case: &Case<'_>) -> Remedy {
    chrony_line(case, "Allow chrony to step the clock at any time.", "makestep 1 -1")
        .changes("chrony's configuration: it steps any offset above 1 s as soon as it is measured")
}

/// Give chrony a table of leap seconds, from which it sets the TAI offset.
pub(crate) fn tai_table(case: &Case<'_>) -> [Remedy; 2] {
    let line = "leapseclist /usr/share/zoneinfo/leap-seconds.list";
    let changes = "chrony's configuration; do not use it where the sources smear leap seconds";
    // An unknown directive keeps chronyd from starting, an unknown time zone
    // does not: the one that every chronyd knows comes first.
    [
        chrony_line(
            case,
            "Set the time zone from which chronyd reads leap seconds, if `TZ=right/UTC date -d \
             'Dec 31 2008 23:59:60'` succeeds.",
            "leapsectz right/UTC",
        )
        .changes(changes),
        chrony_line(
            case,
            "Set the table of leap seconds directly, if `chronyd --version` reports 4.6 or \
             later: older versions refuse to start with this line.",
            line,
        )
        .changes(changes),
    ]
}
