//! Evidence that this is a container.

use crate::tree::Files;
use facts::{Fact, Unknown};

/// The initial namespaces' numbers are fixed (include/linux/proc_ns.h).
const FIRST_PID: &str = "pid:[4026531836]";
const FIRST_UTS: &str = "uts:[4026531838]";
const FIRST_IPC: &str = "ipc:[4026531839]";

const LIMIT_BYTES: u64 = 1 << 16;

/// Words in the first process's control group that identify a runtime.
const CGROUPS: &[&str] = &["docker", "kubepods", "libpod", "lxc", "garden"];

/// The lines of [`facts::system::parse_container`].
pub(crate) fn hints(files: &Files) -> Fact<String> {
    let mut hints = Vec::new();
    if let Some(is_first) = files.is_live().then(first_namespaces).flatten() {
        hints.push(format!("namespaces {}", if is_first { "initial" } else { "own" }));
    }
    for path in ["/.dockerenv", "/run/.containerenv"] {
        if files.exists(path) {
            hints.push(path.to_owned());
        }
    }
    let text = |path: &str| {
        let bytes = files.bytes(path, LIMIT_BYTES);
        bytes.value().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    if let Some(name) = text("/run/systemd/container") {
        hints.push(format!("/run/systemd/container {}", name.trim()));
    }
    let environment = text("/proc/1/environ").unwrap_or_default();
    if let Some(name) = environment.split('\0').find_map(|word| word.strip_prefix("container=")) {
        hints.push(format!("/proc/1/environ {name}"));
    }
    let groups = text("/proc/1/cgroup").unwrap_or_default();
    if let Some(name) = CGROUPS.iter().find(|name| groups.contains(**name)) {
        hints.push(format!("/proc/1/cgroup {name}"));
    }
    if hints.is_empty() && !files.exists("/proc/1") {
        return Fact::Unknown(Unknown::not_there("parachron/container"));
    }
    Fact::Known(hints.join("\n") + "\n")
}

/// Whether this process is in the first process's namespaces. A service with
/// its own host name (`ProtectHostname=`) is still no container. Without /proc that is unknown.
fn first_namespaces() -> Option<bool> {
    let is = |kind: &str, first: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}"));
        link.ok().map(|link| link.as_os_str() == first)
    };
    Some(is("pid", FIRST_PID)? && (is("uts", FIRST_UTS)? || is("ipc", FIRST_IPC)?))
}
