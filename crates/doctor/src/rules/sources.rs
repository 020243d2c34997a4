//! chronyd's sources: the host's clock beside them, and their leap seconds.

use facts::hardware::{Phc, PhcTime};
use facts::steering::chrony_config::{NtpServer, RefClock};
use facts::steering::ntp_config::NtpConfig;
use facts::steering::{Adjtimex, TimeKeeperKind};

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};
use crate::text;

/// A network card's clock runs free unless linuxptp or chronyd's `hwtimestamp` sets it; outside of
/// a guest its own receiver may.
fn follows_card(case: &Case<'_>, phcs: &[Phc]) -> Option<Finding> {
    let (line, card) = case.free_card()?;
    let is_guest = case.is_guest() == Some(true);
    let hosts = phcs.iter().find(|phc| phc.is_hosts());
    let what = format!("chronyd follows {}, a network card's clock", line.parameter);
    let finding = if is_guest {
        Finding::new(Severity::Error, what + ", which nothing sets").wrong_now()
    } else {
        Finding::new(Severity::Warning, what + ", which no program here sets")
    }
    .evidence(format!("{}: {}", card.device, card.clock_name))
    .evidence_from(hosts.map(|phc| format!("{}: {}, the host's clock", phc.path(), phc.clock_name)))
    .evidence(format!("chrony's configuration: refclock PHC {}", line.parameter))
    .explain(
        "The numbers of PTP devices depend on the order in which drivers load. A card's clock runs \
         free unless linuxptp sets it, and chronyd reports that it is synchronised to that clock: \
         the time is as wrong as the card's.",
    );
    Some(match hosts {
        Some(phc) => finding.remedy(remedies::chrony_edit(
            case,
            "Name the host's clock instead.",
            &format!("s:{}:{}:", line.parameter, phc.path()),
        )),
        None => finding.remedy(Remedy::advice(
            "Remove that refclock line from chrony's configuration, and give it NTP servers.",
        )),
    })
}

/// The host may show any time: in a confidential guest it has no vote.
fn in_confidential_guest(case: &Case<'_>, kind: &str) -> Check {
    let current = case.current()?;
    let config = case.chrony_config_perhaps_used().ok();
    let phc = config.and_then(|config| {
        config.phcs().find(|line| case.phc_named(line).is_some_and(Phc::is_hosts))
    });
    let page = ["kvm-clock", "hyperv_clocksource_tsc_page"].contains(&current);
    if phc.is_none() && !page {
        return Outcome::fine(format!(
            "{kind}: the kernel uses {current}, and no clock of the host's; what remains to trust \
             are authenticated servers (NTS)"
        ));
    }
    Finding::new(
        Severity::Warning,
        format!("The host controls this clock, although the guest is confidential ({kind})"),
    )
    .evidence_from(
        phc.map(|line| format!("chrony's configuration: refclock PHC {}", line.parameter)),
    )
    .evidence_from(
        page.then(|| format!("current_clocksource: {current}, a page that the host writes")),
    )
    .explain(
        "The guest does not trust its host, which can write any time into that page or device: \
             old certificates become valid again.",
    )
    .remedy(if page && case.offers("tsc") {
        remedies::switch_to(case, "tsc")
    } else {
        Remedy::advice(
            "Remove that refclock line, and use servers with NTS (chrony: server NAME nts).",
        )
    })
    .alone()
}

/// `host-clock-unused`
pub(crate) fn check_unused(case: &Case<'_>) -> Check {
    perhaps(case.flags())?;
    if let Some(kind) = case.confidential() {
        return in_confidential_guest(case, kind);
    }
    let config = match (case.chrony_config_perhaps_used(), case.host_phcs().next()) {
        (Err(Skipped::Absent(_)), Some(phc)) if case.keepers().is_err() => {
            return offered(
                case,
                phc,
                "The host's clock is available as a PTP device; whether a daemon uses it is not known",
            )
            .alone();
        }
        (config, _) => config?,
    };
    let phcs = case.phcs()?;
    if let Some(finding) = follows_card(case, phcs) {
        return finding.alone();
    }
    let Some(phc) = case.host_phcs().next() else {
        return Err(Skipped::DoesNotApply("does not apply: no PTP clock of a host".to_owned()));
    };
    if config.phcs().next().is_some() || case.phc_followed().is_some() {
        return Outcome::fine(format!("chronyd uses a PTP clock; {} is available", phc.path()));
    }
    if !case.running(&[TimeKeeperKind::LinuxPtp]).is_empty() {
        return Outcome::fine("linuxptp runs, which may use it");
    }
    let servers = text::count(config.servers.len(), "NTP server or pool", "NTP servers or pools");
    offered(case, phc, "The host's clock is available as a PTP device, and chronyd does not use it")
        .evidence_from(case.perhaps_unused("chronyd"))
        .evidence(format!("chrony's configuration: {servers}, no refclock PHC"))
        .alone()
}

/// A PTP clock of the host that may be of use.
fn offered(case: &Case<'_>, phc: &Phc, what: &str) -> Finding {
    Finding::new(Severity::Note, what)
        .evidence(format!("{}: {}", phc.path(), phc.clock_name))
        .explain(
            "A PTP device is read without the network: it is good to microseconds, NTP to a \
             millisecond or worse, and it is right again at once after a pause. It is only as \
             right as the host's own clock.",
        )
        .remedy(remedies::follow_host(case, phc))
}

/// What its list of servers lacks: whose answers, and how many.
fn of_servers(
    case: &Case<'_>,
    (program, file): (&str, &str),
    servers: &[NtpServer],
) -> Option<Finding> {
    // Of ntpd's reference clocks, 127.127.t.u, those of type 1 are this machine's own clock.
    let own = if program == "ntpd" { "127.127.1." } else { "127.127." };
    let others: Vec<_> = servers.iter().filter(|server| !server.name.starts_with(own)).collect();
    // What has a name here smears, is link-local, a reference clock, or another program's port.
    let is_enough = |server: &&NtpServer| server.is_pool || server.name != "withheld";
    let (severity, what, why) = match others.as_slice() {
        [] => (
            Severity::Warning,
            format!("this machine itself alone ({})", servers.first()?.name),
            "ntpd takes 127.127.1.x for this machine's own clock; to chronyd it is an address where \
             nobody answers. Nothing corrects the clock.",
        ),
        all if all.iter().any(is_enough) => return None,
        [_] => (
            Severity::Note,
            "one server alone".to_owned(),
            "The clock follows that server even if the server is wrong, and runs free while the server \
             does not reply. Three sources or more show which is wrong (chrony FAQ).",
        ),
        [_, _] => (
            Severity::Note,
            "two servers alone".to_owned(),
            "If the two contradict each other, nothing shows which is right. Three sources or more \
             do (chrony FAQ).",
        ),
        _ => return None,
    };
    let finding = Finding::new(severity, format!("{program} is configured with {what}"))
        .evidence(format!("{file}: {what}, no pool and no reference clock"))
        .evidence_from(case.perhaps_unused(program))
        .explain(why);
    Some(
        finding.remedy(Remedy::advice("Add servers or a pool, or the host's clock if it has one.")),
    )
}

/// `chrony-configuration`
pub(crate) fn check_configuration(case: &Case<'_>) -> Check {
    let config = case.chrony_config_perhaps_used()?;
    let file = config.file.as_deref().unwrap_or("chrony's configuration");
    if let Some(first) = config.refused.first() {
        return Finding::new(Severity::Warning, format!("chronyd does not start with {first}"))
            .evidence_from(config.refused.iter().cloned())
            .evidence_from(case.perhaps_unused("chronyd"))
            .explain("chronyd ends with an error at such a line: then nothing sets the clock.")
            .remedy(remedies::chrony_check(case))
            .alone();
    }
    if let Some(first) = config.skipped.first() {
        return Finding::new(Severity::Warning, format!("chronyd ignores a line of {first}"))
            .evidence_from(config.skipped.iter().cloned())
            .evidence_from(case.perhaps_unused("chronyd"))
            .remedy(Remedy::advice("Correct that line, then run chronyc reload sources as root."))
            .alone();
    }
    let is_alone = config.refclocks.is_empty();
    let checked = match config.servers.len() {
        0 if is_alone => "no source in these files",
        _ => "no unknown option in servers' lines, and no makestep that chronyd refuses",
    };
    match of_servers(case, ("chronyd", file), &config.servers).filter(|_| is_alone) {
        Some(finding) => finding.alone(),
        None => Outcome::fine(format!("{file}: {checked}")),
    }
}

/// `ntp-configuration`
pub(crate) fn check_others(case: &Case<'_>) -> Check {
    let no_file = "no configuration of ntpd or systemd-timesyncd";
    let all = case.ntp_configs().map_err(|why| why.unless_absent(no_file))?;
    let is_seen = perhaps(case.keepers())?.is_some();
    let runs = |config: &&NtpConfig| !is_seen || !case.running(&[config.kind]).is_empty();
    let used: Vec<_> = all.iter().filter(runs).collect();
    if used.is_empty() {
        let why = "does not apply: neither ntpd nor systemd-timesyncd runs";
        return Err(Skipped::DoesNotApply(why.to_owned()));
    }
    let found = used.into_iter().filter_map(|config| of_config(case, config)).collect();
    Outcome::findings_or_fine(found, || "no fault in the servers that these files name".to_owned())
}

fn of_config(case: &Case<'_>, config: &NtpConfig) -> Option<Finding> {
    let (program, file) = (config.kind.program(), config.file.as_str());
    let servers = config.servers.as_deref()?;
    let smearing = servers.iter().filter(|server| server.smears).count();
    let (severity, what, why) = if servers.is_empty() {
        (
            Severity::Warning,
            "without a server",
            "Unless DHCP or the network's settings name one, nothing corrects the clock.",
        )
    } else if (1..servers.len()).contains(&smearing) {
        (
            Severity::Note,
            "with servers that smear leap seconds and others",
            "Around a leap second they differ by up to half a second for a day.",
        )
    } else {
        // timesyncd follows one of its servers at a time.
        let is_ntpd = config.kind == TimeKeeperKind::Ntpd;
        return of_servers(case, (program, file), servers).filter(|_| is_ntpd);
    };
    let finding = Finding::new(severity, format!("{program} is configured {what}"))
        .evidence(format!("{file}: {}", text::count(servers.len(), "server", "servers")))
        .evidence_from(case.perhaps_unused(program))
        .explain(why);
    Some(finding.remedy(Remedy::advice(format!("Correct {file}, then restart {program}."))))
}

/// How the scale of a clock and the line that names it disagree, and what to
/// write there.
///
/// ```text
/// error = what the clock is ahead of UTC + what the line adds
///     0 = 37 − 37      TAI with `offset -37`, or `tai` and a leap table
///    74 = 37 + 37      TAI with `offset 37`
/// ```
fn mistaken(line: &RefClock, time: PhcTime) -> Option<(String, &'static str)> {
    let name = &line.parameter;
    let (scale, other, ahead_s, option) = match time {
        PhcTime::Tai => ("TAI", "UTC", 37.0, "offset -37"),
        PhcTime::Utc | PhcTime::SmearedUtc | PhcTime::PerhapsSmearedUtc => {
            ("UTC", "TAI", 0.0, "offset 0")
        }
        PhcTime::Monotonic => {
            let what = format!(
                "{name} counts time since a start, and chronyd is configured to read it as the \
                 date"
            );
            return Some((what, ""));
        }
        PhcTime::Unknown => return None,
    };
    let error_s: f64 = ahead_s + line.correction_s;
    // Half of TAI − UTC, and more than an offset that compensates a delay.
    if error_s.abs() < 18.0 {
        return None;
    }
    let what = if line.correction_s <= 0.0 {
        format!("{name} counts {scale}, and chronyd is configured to read it as {other}")
    } else {
        format!(
            "{name} counts {scale}, but its refclock line in chrony.conf adds {} s",
            line.correction_s
        )
    };
    Some((format!("{what}: {} s off", error_s.abs()), option))
}

/// `phc-time-scale`
pub(crate) fn check_time_scale(case: &Case<'_>) -> Check {
    let config = case.chrony_config_perhaps_used()?;
    let mut findings = Vec::new();
    let mut fine = Vec::new();
    for line in config.phcs() {
        let Some(phc) = case.phc_named(line) else { continue };
        let time = case.phc_time(phc);
        let name = &phc.clock_name;
        let Some((what, option)) = mistaken(line, time) else {
            fine.push(line.parameter.as_str());
            continue;
        };
        let release = case.release().unwrap_or("unknown");
        let finding = Finding::new(Severity::Error, what)
            .evidence(format!("{}: {name}, with Linux {release}", phc.device))
            .evidence(format!("chrony's configuration: refclock PHC {}", line.parameter))
            .evidence_from(case.perhaps_unused("chronyd"))
            .explain(
                "The driver vmclock shows TAI from Linux 7.0 on, and UTC before; virtio clocks \
                 state it in their type: 0 UTC, 1 TAI, 2 no time of day. If there are other \
                 sources, chronyd rejects such a clock; if there are none, the time is wrong.",
            );
        findings.push(match option {
            "" => finding
                .remedy(Remedy::advice("Remove that refclock line from chrony's configuration.")),
            option => finding.remedy(Remedy::advice(format!(
                "Write {option} in that refclock line, instead of the other offset or tai, and \
                 restart chrony."
            ))),
        });
    }
    Outcome::findings_or_fine(findings, || match fine.as_slice() {
        [] => "no refclock line names a PTP clock of a known kind".to_owned(),
        some => format!("{}: matches what its driver counts", some.join(", ")),
    })
}

/// chronyd must not know of a leap second that its servers spread (chrony.conf(5), leapsectz).
fn stepped_and_smeared(case: &Case<'_>, smeared: &[String]) -> Finding {
    Finding::new(
        Severity::Warning,
        "chronyd has a table of leap seconds, and its servers smear them",
    )
    .evidence_from(case.perhaps_unused("chronyd"))
    .evidence(format!("smeared over 24 h: {}", smeared.join(", ")))
    .evidence("chrony's configuration: leapsectz or leapseclist")
    .explain(
        "At the next leap second chronyd steps the clock by the table, while its servers spread the \
         same second over a day: the clock is off by up to a second for hours.",
    )
    .remedy(
        remedies::chrony_edit(
            case,
            "Remove the table.",
            "/^ *leapsectz/Id;/^ *leapseclist/Id",
        )
        .changes("chrony's configuration; CLOCK_TAI then stays unset"),
    )
}

/// `mixed-leap-smear`
pub(crate) fn check_mixed(case: &Case<'_>) -> Check {
    let config = case.chrony_config_perhaps_used()?;
    let (mut smeared, mut plain) = (Vec::new(), Vec::new());
    for server in &config.servers {
        if server.smears {
            smeared.push(server.name.clone());
        } else {
            plain.push("other NTP servers".to_owned());
        }
    }
    for line in config.phcs() {
        match case.phc_named(line).map(|phc| case.phc_time(phc)) {
            Some(PhcTime::SmearedUtc) => smeared.push(line.parameter.clone()),
            Some(PhcTime::Utc | PhcTime::Tai) => plain.push(line.parameter.clone()),
            _ => {}
        }
    }
    plain.dedup();
    if config.leap_table && !smeared.is_empty() {
        return stepped_and_smeared(case, &smeared).alone();
    }
    if smeared.is_empty() || plain.is_empty() {
        return Outcome::fine(match (smeared.len(), plain.len()) {
            (0, 0) => "no source that is known to smear leap seconds or not to".to_owned(),
            (0, _) => "no source that is known to smear leap seconds".to_owned(),
            _ => "all sources smear leap seconds".to_owned(),
        });
    }
    let armed = case
        .adjtimex()
        .is_ok_and(|state| state.has(Adjtimex::STA_INS) || state.has(Adjtimex::STA_DEL));
    Finding::new(
        if armed { Severity::Warning } else { Severity::Note },
        "Some of chronyd's sources smear leap seconds, others do not",
    )
    .evidence(format!("smeared over 24 h: {}", smeared.join(", ")))
    .evidence(format!("not known to smear: {}", plain.join(", ")))
    .evidence_from(case.perhaps_unused("chronyd"))
    .explain(
        "Around a leap second they differ by up to half a second for a day, and chronyd alternates \
         between them. AWS, Google and CockroachDB all recommend one kind for the whole cluster.",
    )
    .remedy(Remedy::advice(
        "Keep one kind in chrony's configuration: either the cloud's servers alone, or its PTP \
         clock with servers that do not smear.",
    ))
    .alone()
}

#[cfg(test)]
mod tests;
