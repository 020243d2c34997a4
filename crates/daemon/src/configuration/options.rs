//! The keys of the configuration file: default, meaning, and how a value
//! becomes a setting. The file that is shipped is written from this table.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use instruments::duration;
use serde_spanned::Spanned;
use sources::phc::{PhcSpec, PhcSpecError};
use toml::de::DeValue;

use crate::settings::{ChronydSettings, Settings};
use crate::values::{self, BURST, Chrony};

/// Up to VMADDR_PORT_ANY, which is no port (vsock(7)).
const VSOCK_PORTS: u32 = u32::MAX - 1;

/// A day's lines take less than the least.
const RECORDS_MB: RangeInclusive<u32> = 4..=1_000_000;

/// One key.
#[derive(Debug)]
pub(super) struct ConfigOption {
    pub(super) key: &'static str,
    /// Its default, as TOML.
    pub(super) default: &'static str,
    /// What it does, line by line.
    pub(super) help: &'static [&'static str],
    pub(super) apply: fn(&mut Settings, &Value<'_>) -> Result<(), Wrong>,
}

pub(super) type Value<'f> = Spanned<DeValue<'f>>;

/// What is wrong with a value, and which bytes of the file it is.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: Range<usize>,
    pub(super) why: String,
}

const fn option(
    key: &'static str,
    default: &'static str,
    help: &'static [&'static str],
    apply: fn(&mut Settings, &Value<'_>) -> Result<(), Wrong>,
) -> ConfigOption {
    ConfigOption { key, default, help, apply }
}

/// All of them, in the order of the file.
#[rustfmt::skip]
pub(super) const OPTIONS: &[ConfigOption] = &[
    option("ntp", "[]", &[
        "NTP servers, HOST or HOST:PORT. Name none, or two and more: by one alone an",
        "offset of more than a second is not corrected; three outvote a wrong one.",
    ], |to, it| set(&mut to.sources.ntp, list(it, values::server))),
    option("timeout", "\"300ms\"", &["Timeout for a server's reply, 1ms to 1s."],
        |to, it| set(&mut to.sources.timeout, parsed(it, values::timeout))),
    option("poll", "\"64s\"", &[
        "Interval between requests to a server while nothing happens, 1s to 24h; 64s",
        "or more for servers that are not yours.",
    ], |to, it| set(&mut to.policy.poll_ns, parsed(it, |text| values::poll(text).map(ns)))),
    option("phc", "[]", &[
        "PTP hardware clocks besides the host's, which are found by themselves. A",
        "network card's needs its scale: \"/dev/ptp1,utc\", or \"/dev/ptp1,tai\" with the",
        "kernel's TAI offset, or \"/dev/ptp1,tai=37\".",
    ], |to, it| set(&mut to.sources.phc, list(it, phc))),
    option("host-socket", "\"\"", &[
        "Read the host's messages from this Unix datagram socket, such as",
        "\"/run/parachron/host.sock\"; none where it is empty.",
    ], |to, it| set(&mut to.sources.host_socket, path_or_none(it))),
    option("host-vsock", "0", &[
        "Let the host connect to this port of AF_VSOCK, such as 123; to none where it is 0.",
        "Beyond 1023 any user's process may have it first: the host is heard once it is free.",
    ], |to, it| set(&mut to.sources.host_vsock, number(it, &(0..=VSOCK_PORTS)).map(|port| (port != 0).then_some(port)))),
    option("host-port", "\"\"", &[
        "Listen to the host on this virtio-serial port, /dev/virtio-ports/NAME; on none",
        "where it is empty.",
    ], |to, it| set(&mut to.sources.host_port, path_or_none(it))),
    option("no-source", "[]", &["Sources not to look for: \"vmclock\", \"phc\", \"rtc\"."],
        |to, it| set(&mut to.sources.excluded, list(it, str::parse))),
    option("step-threshold", "\"100ms\"", &["Step offsets larger than this, slew smaller ones."],
        |to, it| set(&mut to.policy.step_threshold_ns, time_ns(it))),
    option("tolerance", "\"1ms\"", &["Ignore offsets up to this."],
        |to, it| set(&mut to.policy.tolerance_ns, time_ns(it))),
    option("max-step", "\"1h\"", &["Largest correction by one source alone that no disruption accounts for."],
        |to, it| set(&mut to.policy.max_step_ns, time_ns(it))),
    option("burst", "3", &["Steps allowed back to back, 1 to 100."],
        |to, it| set(&mut to.policy.burst, number(it, &BURST))),
    option("min-interval", "\"30s\"", &["Minimum interval between steps after a burst, and between slews."],
        |to, it| set(&mut to.policy.min_interval_ns, time_ns(it))),
    option("never-backward", "false", &["Never set the clock back: slow it while it is ahead."],
        |to, it| set(&mut to.policy.never_backward, boolean(it))),
    option("chrony", "[]", &[
        "Leave the clock to chronyd: \"makestep\" sends it that command (to its command",
        "socket, or by \"makestep=PATH\" to another), \"sock=PATH\" feeds it the selected",
        "source.",
    ], |to, it| set(&mut to.chronyd, chrony(it))),
    option("allow-daemon", "[]", &["Discipline the clock even if these daemons run, such as \"openntpd\"; beside",
        "another one it is only stepped."],
        |to, it| set(&mut to.allowed, list(it, values::daemon_name))),
    option("force", "false", &["Discipline the clock whatever other daemons run."],
        |to, it| set(&mut to.force, boolean(it))),
    option("dry-run", "false", &["Report corrections and make none."],
        |to, it| set(&mut to.dry_run, boolean(it))),
    option("interval", "\"500ms\"", &[
        "Interval of samples, 10ms to 10s: a pause is seen this much later at most, and",
        "each sample is a wake-up.",
    ], |to, it| set(&mut to.interval, parsed(it, values::interval))),
    option("status-socket", "\"/run/parachron/status.sock\"", &[
        "Where `parachron status` asks, open to all users; none where it is empty.",
    ], |to, it| set(&mut to.status_socket, path_or_none(it))),
    option("metrics", "\"\"", &[
        "Serve metrics for Prometheus at this ADDRESS:PORT, such as \"127.0.0.1:9975\", by what",
        "is told at status-socket. A change is made by a restart.",
    ], |to, it| set(&mut to.metrics, parsed(it, values::listen))),
    option("web-config", "\"\"", &[
        "TLS and passwords for metrics: a file of Prometheus' exporter toolkit, such as",
        "\"/etc/parachron/web.yml\"; neither where it is empty. What is in it is read anew.",
    ], |to, it| set(&mut to.web_config, path_or_none(it))),
    option("records", "\"\"", &[
        "Record this clock each minute in this folder, such as \"/var/lib/parachron/records\",",
        "by what is told at status-socket: a Parquet file a day. A change is made by a restart.",
    ], |to, it| set(&mut to.records, path_or_none(it))),
    option("records-limit", "64", &[
        "Megabytes that the records may take, 4 to 1000000; the oldest go first.",
    ], |to, it| set(&mut to.records_limit_mb, number(it, &RECORDS_MB))),
    option("consumers", "[]", &[
        "What trusts this clock, such as \"cockroachdb\": alerts of margins are about these.",
    ], |to, it| set(&mut to.consumers, list(it, values::consumer))),
    option("state-folder", "\"/var/lib/parachron\"", &[
        "Keep the learnt frequency here for the next start; nowhere where it is empty.",
    ], |to, it| set(&mut to.state_folder, path_or_none(it))),
    option("clockbound", "\"/var/run/clockbound\"", &[
        "Publish the clock's error bound for clients of ClockBound in this folder; nowhere",
        "where it is empty.",
    ], |to, it| set(&mut to.clockbound, path_or_none(it))),
    option("host-time", "\"\"", &[
        "On a host of virtual machines: publish the time in this file, such as",
        "\"/run/parachron/host-time\", by which a VMM writes its guests' VMClock pages.",
    ], |to, it| set(&mut to.host_time, path_or_none(it))),
    option("vmclock", "\"/dev/vmclock0\"", &["The VMClock page."],
        |to, it| set(&mut to.paths.vmclock, path(it))),
    option("kernel-log", "\"/dev/kmsg\"", &["The kernel's log, for evidence of what happened."],
        |to, it| set(&mut to.paths.kernel_log, path(it))),
];

fn set<T>(to: &mut T, value: Result<T, Wrong>) -> Result<(), Wrong> {
    *to = value?;
    Ok(())
}

fn wrong(value: &Value<'_>, why: String) -> Wrong {
    Wrong { at: value.span(), why }
}

fn expected(what: &str, value: &Value<'_>) -> Wrong {
    wrong(value, format!("expected {what}, found {}", value.get_ref().type_str()))
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| expected("text in quotes", value))
}

fn parsed<T>(value: &Value<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
    parse(text(value)?).map_err(|why| wrong(value, why))
}

fn list<T>(value: &Value<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Wrong> {
    let array = value.get_ref().as_array().ok_or_else(|| expected("a list in [ ]", value))?;
    array.iter().map(|one| parsed(one, &parse)).collect()
}

fn boolean(value: &Value<'_>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| expected("true or false", value))
}

fn number(value: &Value<'_>, range: &RangeInclusive<u32>) -> Result<u32, Wrong> {
    let integer = value.get_ref().as_integer().ok_or_else(|| expected("a number", value))?;
    let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        wrong(value, format!("expected {least} to {most}, found {}", integer.as_str()))
    })
}

fn time_ns(value: &Value<'_>) -> Result<u64, Wrong> {
    parsed(value, |text| duration::parse(text).map(ns))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn path_or_none(value: &Value<'_>) -> Result<Option<PathBuf>, Wrong> {
    if text(value)?.is_empty() { Ok(None) } else { path(value).map(Some) }
}

/// A PTP hardware clock: a daemon has no folder of its own, so by its whole path.
fn phc(text: &str) -> Result<PhcSpec, String> {
    match text.parse::<PhcSpec>() {
        Ok(spec) if !spec.path.is_absolute() => {
            Err(PhcSpecError { found: text.to_owned() }.to_string())
        }
        spec => spec.map_err(|why| why.to_string()),
    }
}

/// The ways to work with chronyd, of each kind one.
fn chrony(value: &Value<'_>) -> Result<ChronydSettings, Wrong> {
    let ways: Vec<Chrony> = list(value, |text| {
        let way = text.parse()?;
        match &way {
            Chrony::Makestep(Some(path)) | Chrony::Sock(path) if !path.is_absolute() => {
                Err(format!("expected a path that begins with /, found {text:?}"))
            }
            _ => Ok(way),
        }
    })?;
    let is_sock = |way: &&Chrony| matches!(way, Chrony::Sock(_));
    let socks = ways.iter().filter(is_sock).count();
    if socks > 1 || ways.len() - socks > 1 {
        let what = "expected makestep once and sock=PATH once at the most, found";
        return Err(wrong(value, format!("{what} {} entries", ways.len())));
    }
    Ok(ways.into_iter().collect())
}

fn path(value: &Value<'_>) -> Result<PathBuf, Wrong> {
    parsed(value, |text| match text {
        _ if text.starts_with('/') && !text.contains('\0') => Ok(text.into()),
        _ => Err(format!("expected a path that begins with /, found {text:?}")),
    })
}
