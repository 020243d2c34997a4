//! The keys of the configuration file and the options of `parachron keep`: default, meaning,
//! and how a value becomes a setting. The file that is shipped is written from this table.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use instruments::duration;
use serde_spanned::Spanned;
use sources::chronyd_client::ChronydAddress;
use sources::phc::{PhcSpec, PhcSpecError};
use toml::de::{DeTable, DeValue};

use crate::settings::{ChronydSettings, Settings};
use crate::values;

/// Up to VMADDR_PORT_ANY, which is no port (vsock(7)).
const VSOCK_PORTS: u32 = u32::MAX - 1;

/// A day's lines take less than the least.
const RECORDS_MB: RangeInclusive<u32> = 4..=1_000_000;

/// One key of the file, and option of `parachron keep`.
#[derive(Debug)]
pub struct ConfigOption {
    /// Its name.
    pub key: &'static str,
    /// What its value is called; empty for one that is true or false.
    pub value_name: &'static str,
    pub(super) default_toml: &'static str,
    pub(super) help_lines: &'static [&'static str],
    setter: fn(&mut Settings, &Value<'_>) -> Result<(), WrongValue>,
}

impl ConfigOption {
    /// What it does, as the file and `--help` have it.
    pub fn help(&self) -> String {
        self.help_lines.join(" ")
    }

    /// Its default, as a command line has it; `None` where that is nothing.
    pub fn default(&self) -> Option<&'static str> {
        let default = self.default_toml.trim_matches(['"', '[', ']']);
        Some(default).filter(|default| !default.is_empty() && !self.is_flag())
    }

    /// Whether it is true or false.
    pub fn is_flag(&self) -> bool {
        self.value_name.is_empty()
    }

    /// Whether it has any number of values.
    pub fn is_list(&self) -> bool {
        self.default_toml.starts_with('[')
    }

    /// Whether `parachrond` alone has it, which serves and stores what it names.
    pub fn is_of_service(&self) -> bool {
        self.key.starts_with("gate")
            || [
                "metrics",
                "listen-anywhere",
                "records",
                "records-limit",
                "consumers",
                "state-folder",
            ]
            .contains(&self.key)
    }

    /// Sets it to what a command line has: a list to all values, and a flag to true.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&self, settings: &mut Settings, values: &[String]) -> Result<(), String> {
        // JSON's text in quotes is TOML's.
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let quoted: Vec<_> = values.iter().map(quoted).collect();
        let is_number =
            |text: &&String| self.default_toml.parse::<u32>().and(text.parse::<u32>()).is_ok();
        let value = match values.last().filter(is_number) {
            _ if self.is_flag() => "true".to_owned(),
            _ if self.is_list() => format!("[{}]", quoted.join(", ")),
            Some(number) => number.clone(),
            None => quoted.last().cloned().unwrap_or_default(),
        };
        let text = format!("v = {value}");
        let table = DeTable::parse(&text).map_err(|error| error.message().to_owned())?;
        let mut values = table.get_ref().values();
        let value = values.next().ok_or("no value")?;
        (self.setter)(settings, value).map_err(|wrong| wrong.why)
    }

    /// Sets it to a value of the file's.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        value: &Value<'_>,
    ) -> Result<(), WrongValue> {
        (self.setter)(settings, value)
    }
}

pub(super) type Value<'f> = Spanned<DeValue<'f>>;

/// What is wrong with a value, and which bytes of the file it is.
#[derive(Debug)]
pub(super) struct WrongValue {
    pub(super) at: Range<usize>,
    pub(super) why: String,
}

const fn option(
    key: &'static str,
    value_name: &'static str,
    default_toml: &'static str,
    help_lines: &'static [&'static str],
    setter: fn(&mut Settings, &Value<'_>) -> Result<(), WrongValue>,
) -> ConfigOption {
    ConfigOption { key, value_name, default_toml, help_lines, setter }
}

/// All of them, in the order of the file.
#[rustfmt::skip]
pub const OPTIONS: &[ConfigOption] = &[
    option("ntp", "HOST[:PORT]", "[]", &[
        "NTP servers, HOST or HOST:PORT. Name none, or at least two: one server alone",
        "corrects offsets of up to a second; three outvote a wrong one.",
    ], |to, value| set(&mut to.sources.ntp, list(value, values::server))),
    option("timeout", "TIME", "\"300ms\"", &["Timeout for a server's reply, 1ms to 1s."],
        |to, value| set(&mut to.sources.timeout, time(value, "1ms to 1s"))),
    option("poll", "TIME", "\"64s\"", &[
        "Interval between requests to a server while nothing happens, 1s to 24h. Use 64s",
        "or more for servers that you do not run.",
    ], |to, value| set(&mut to.policy.poll_ns, time(value, "1s to 24h").map(ns))),
    option("max-distance", "TIME", "\"1s\"", &[
        "Do not use a source whose time may be off by more than this: for a server, half the round",
        "trip plus the root distance. A clock beyond it never counts as synchronised.",
    ], |to, value| set(&mut to.sources.max_distance, time(value, "1ms to 16s"))),
    option("max-clock-error", "PPM", "\"auto\"", &[
        "Error of the clock's rate that measurements do not show, 0.001ppm to 500ppm: the error",
        "bound grows by it. \"auto\": 15ppm on bare metal, or where a VMClock page would announce a",
        "move to another host; otherwise 100ppm.",
    ], |to, value| set(&mut to.max_clock_error_ppb, parsed(value, values::max_clock_error))),
    option("phc", "DEVICE[,utc|,tai]", "[]", &[
        "PTP hardware clocks to read besides those of the host, which are found automatically.",
        "The clock of a network card needs its time scale: \"/dev/ptp1,utc\", or \"/dev/ptp1,tai\"",
        "with the kernel's TAI offset, or \"/dev/ptp1,tai=37\".",
    ], |to, value| set(&mut to.sources.phc, list(value, phc))),
    option("host-socket", "PATH", "\"\"", &[
        "Read the host's messages from this Unix datagram socket, such as",
        "\"/run/parachron/host.sock\". Empty: no socket.",
    ], |to, value| set(&mut to.sources.host_socket, path_or_none(value))),
    option("host-vsock", "PORT", "0", &[
        "Let the host connect to this AF_VSOCK port, such as 123. 0: no port. A process of any",
        "user may occupy a port above 1023; the daemon then waits until that port is free.",
    ], |to, value| set(&mut to.sources.host_vsock, number(value, &(0..=VSOCK_PORTS)).map(|port| (port != 0).then_some(port)))),
    option("host-port", "PATH", "\"\"", &[
        "Listen to the host on this virtio-serial port, /dev/virtio-ports/NAME. Empty: no",
        "port.",
    ], |to, value| set(&mut to.sources.host_port, path_or_none(value))),
    option("no-source", "KINDS", "[]", &["Sources not to look for: \"vmclock\", \"phc\", \"rtc\"."],
        |to, value| set(&mut to.sources.excluded, list(value, str::parse))),
    option("step-threshold", "TIME", "\"100ms\"", &["Step offsets larger than this, slew smaller ones."],
        |to, value| set(&mut to.policy.step_threshold_ns, time_ns(value))),
    option("tolerance", "TIME", "\"1ms\"", &["Ignore offsets up to this."],
        |to, value| set(&mut to.policy.tolerance_ns, time_ns(value))),
    option("max-step", "TIME", "\"1h\"", &["Largest correction that one source alone may make without a disruption."],
        |to, value| set(&mut to.policy.max_step_ns, time_ns(value))),
    option("burst", "STEPS", "3", &["Steps allowed back to back, 1 to 100."],
        |to, value| set(&mut to.policy.burst, number(value, &(1..=100)))),
    option("min-interval", "TIME", "\"30s\"", &["Minimum interval between steps after a burst, and between slews."],
        |to, value| set(&mut to.policy.min_interval_ns, time_ns(value))),
    option("never-backward", "", "false", &["Never set the clock back: run it slower while it is ahead."],
        |to, value| set(&mut to.policy.never_backward, boolean(value))),
    option("chrony", "makestep|sock=PATH", "[]", &[
        "Leave the clock to chronyd: \"makestep\" sends chronyd that command (to its command",
        "socket, or with \"makestep=PATH\" to another one), \"sock=PATH\" sends chronyd the",
        "selected source.",
    ], |to, value| set(&mut to.chronyd, chrony(value))),
    option("allow-daemon", "NAMES", "[]", &[
        "Discipline the clock even if these daemons run, such as \"openntpd\". Beside any",
        "other time daemon the clock is only stepped.",
    ], |to, value| set(&mut to.allowed, list(value, values::daemon_name))),
    option("force", "", "false", &["Discipline the clock even if other time daemons run."],
        |to, value| set(&mut to.force, boolean(value))),
    option("dry-run", "", "false", &["Report corrections and make none; needs no permission."],
        |to, value| set(&mut to.dry_run, boolean(value))),
    option("interval", "TIME", "\"500ms\"", &[
        "Interval between samples, 10ms to 10s. A pause is detected at most this much",
        "later, and every sample is a wake-up.",
    ], |to, value| set(&mut to.interval, time(value, "10ms to 10s"))),
    option("status-socket", "PATH", "\"/run/parachron/status.sock\"", &[
        "Serve `parachron status` on this socket, which all users may open. Empty: no",
        "socket.",
    ], |to, value| set(&mut to.status_socket, path_or_none(value))),
    option("metrics", "ADDRESS:PORT|/PATH", "\"\"", &[
        "Serve Prometheus metrics on this loopback address, such as \"127.0.0.1:9975\", or on this",
        "Unix socket, such as \"/run/parachron/metrics.sock\". Empty: no metrics. Restart the daemon",
        "after a change.",
    ], |to, value| set(&mut to.metrics, parsed(value, values::listen))),
    option("listen-anywhere", "", "false", &[
        "Allow an address of `metrics` that other machines reach: they read the metrics and the",
        "last log lines without TLS or a password.",
    ], |to, value| set(&mut to.listen_anywhere, boolean(value))),
    option("records", "FOLDER", "\"\"", &[
        "Record this clock every minute in this folder, such as \"/var/lib/parachron/records\",",
        "with one file of JSON lines a day. Empty: no records. Restart the daemon after a change.",
    ], |to, value| set(&mut to.records, path_or_none(value))),
    option("records-limit", "MEGABYTES", "64", &[
        "Megabytes that the records may take, 4 to 1000000. The oldest are deleted first.",
    ], |to, value| set(&mut to.records_limit_mb, number(value, &RECORDS_MB))),
    option("consumers", "NAMES", "[]", &[
        "Programs that depend on this clock, such as \"cockroachdb\". Alerts about clock margins",
        "apply to these.",
    ], |to, value| set(&mut to.consumers, list(value, values::consumer))),
    option("state-folder", "FOLDER", "\"/var/lib/parachron\"", &[
        "Store the learnt frequency in this folder for the next start. Empty: do not store it.",
    ], |to, value| set(&mut to.state_folder, path_or_none(value))),
    option("clockbound", "FOLDER", "\"/var/run/clockbound\"", &[
        "Publish the clock's error bound for ClockBound clients in this folder. Empty: do not",
        "publish it.",
    ], |to, value| set(&mut to.clockbound, path_or_none(value))),
    option("gate", "GROUPS", "[]", &[
        "Freeze these control groups while the clock may be wrong after a restore:",
        "\"workload.slice\", \"db.service\", \"/PATH\" below the cgroup mount, or \"*\" for all but",
        "the daemon's own slice and the service manager. See docs/guide/restores.md.",
    ], |to, value| set(&mut to.gate.entries, list(value, str::parse))),
    option("gate-bound", "TIME", "\"10ms\"", &[
        "Thaw the groups of `gate` once the clock is off by at most this. While they are frozen,",
        "offsets beyond half of this are stepped.",
    ], |to, value| set(&mut to.gate.bound, time(value, "10us to 10s"))),
    option("gate-limit", "TIME", "\"10s\"", &[
        "Thaw the groups of `gate` after this time, 100ms to 10min, even if the clock is wrong,",
        "and log an error.",
    ], |to, value| set(&mut to.gate.limit, time(value, "100ms to 10min"))),
    option("gate-socket", "PATH", "\"/run/parachron/gate.sock\"", &[
        "Serve `parachron gate` on this socket, which root and the daemon's user may open.",
    ], |to, value| set(&mut to.gate.socket, path(value))),
    option("host-time", "FILE", "\"\"", &[
        "On a host of virtual machines: publish the time in this file, such as",
        "\"/run/parachron/host-time\", from which a VMM writes its guests' VMClock pages.",
    ], |to, value| set(&mut to.host_time, path_or_none(value))),
    option("vmclock", "FILE", "\"/dev/vmclock0\"", &["The VMClock page."],
        |to, value| set(&mut to.paths.vmclock, path(value))),
    option("kernel-log", "FILE", "\"/dev/kmsg\"", &["The kernel's log, for evidence of what happened."],
        |to, value| set(&mut to.paths.kernel_log, path(value))),
];

fn set<T>(to: &mut T, value: Result<T, WrongValue>) -> Result<(), WrongValue> {
    *to = value?;
    Ok(())
}

fn wrong(value: &Value<'_>, why: String) -> WrongValue {
    WrongValue { at: value.span(), why }
}

fn expected(what: &str, value: &Value<'_>) -> WrongValue {
    wrong(value, format!("expected {what}, found {}", value.get_ref().type_str()))
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, WrongValue> {
    value.get_ref().as_str().ok_or_else(|| expected("text in quotes", value))
}

fn parsed<T>(
    value: &Value<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, WrongValue> {
    parse(text(value)?).map_err(|why| wrong(value, why))
}

fn list<T>(
    value: &Value<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, WrongValue> {
    let array = value.get_ref().as_array().ok_or_else(|| expected("a list in [ ]", value))?;
    array.iter().map(|one| parsed(one, &parse)).collect()
}

fn boolean(value: &Value<'_>) -> Result<bool, WrongValue> {
    value.get_ref().as_bool().ok_or_else(|| expected("true or false", value))
}

fn number(value: &Value<'_>, range: &RangeInclusive<u32>) -> Result<u32, WrongValue> {
    let integer = value.get_ref().as_integer().ok_or_else(|| expected("a number", value))?;
    let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        wrong(value, format!("expected {least} to {most}, found {}", integer.as_str()))
    })
}

/// A time within this range.
fn time(value: &Value<'_>, range: &str) -> Result<Duration, WrongValue> {
    parsed(value, |text| {
        let (least, most) = range.split_once(" to ").unwrap_or_default();
        duration::within(text, duration::parse(least)?..=duration::parse(most)?, range)
    })
}

fn time_ns(value: &Value<'_>) -> Result<u64, WrongValue> {
    parsed(value, |text| duration::parse(text).map(ns))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn path_or_none(value: &Value<'_>) -> Result<Option<PathBuf>, WrongValue> {
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
fn chrony(value: &Value<'_>) -> Result<ChronydSettings, WrongValue> {
    let ways = list(value, |text| match text.split_once('=') {
        None if text == "makestep" => Ok((text.to_owned(), None)),
        Some((_, "")) => Err(no_way(text)),
        Some((way @ ("makestep" | "sock"), path)) => {
            let path = Some(path.into()).filter(|path: &PathBuf| path.is_absolute());
            Ok((way.to_owned(), Some(path.ok_or_else(|| no_path(text))?)))
        }
        _ => Err(no_way(text)),
    })?;
    let count = ways.len();
    let (mut socks, mut makesteps): (Vec<_>, Vec<_>) =
        ways.into_iter().partition(|(way, _)| way == "sock");
    if socks.len() > 1 || makesteps.len() > 1 {
        let what = "expected makestep once and sock=PATH once at the most, found";
        return Err(wrong(value, format!("{what} {count} entries")));
    }
    let makestep = makesteps.pop().map(|(_, path)| path.map(ChronydAddress::Unix));
    Ok(ChronydSettings { makestep, feed: socks.pop().and_then(|(_, path)| path) })
}

fn no_way(text: &str) -> String {
    format!("expected makestep, makestep=PATH or sock=PATH, found {text:?}")
}

fn no_path(text: &str) -> String {
    format!("expected a path that begins with /, found {text:?}")
}

fn path(value: &Value<'_>) -> Result<PathBuf, WrongValue> {
    parsed(value, |text| match text {
        _ if text.starts_with('/') && !text.contains('\0') => Ok(text.into()),
        _ => Err(no_path(text)),
    })
}
