//! What a test cannot do without, and how this machine falls short of it.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Something that not every machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// To be root.
    Root,
    /// Two clock sources that the kernel can switch between.
    TwoClocksources,
    /// A network to itself: datagrams reach this machine.
    Loopback,
    /// A clock source of this name.
    Clocksource(&'static str),
    /// `/dev/kvm`, to be opened for reading and writing.
    Kvm,
    /// A program that can be found.
    Tool(&'static str),
    /// A cgroup v2, mounted here, in which a group can be created.
    ControlGroups,
    /// The published clients of ClockBound, which cargo fetches and builds.
    ClockBoundClients,
    /// A file or device.
    Path(&'static str),
}

impl Need {
    /// Why this machine does not meet it; none when it does.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "not root".to_owned()),
            Self::TwoClocksources => {
                let found = clocksources();
                (found.len() < 2).then(|| match found.first() {
                    Some(only) => format!("no clock source but {only}"),
                    None => "no list of clock sources".to_owned(),
                })
            }
            Self::Clocksource(name) => {
                let found = clocksources().iter().any(|found| found == name);
                (!found).then(|| format!("no clock source {name}"))
            }
            Self::Loopback => {
                let error = loopback().err()?;
                Some(format!("no loopback ({error})"))
            }
            Self::Kvm => {
                let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
                opened.err().map(|error| format!("no /dev/kvm ({error})"))
            }
            Self::Tool(name) => (!is_in_path(name)).then(|| format!("no {name}")),
            Self::ControlGroups => {
                let error = control_groups().err()?;
                Some(format!("no control groups ({error})"))
            }
            Self::ClockBoundClients => crate::clockbound_clients::built().err(),
            Self::Path(path) => (!Path::new(path).exists()).then(|| format!("no {path}")),
        }
    }
}

/// Sends a datagram to ourselves.
fn loopback() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(&[0], socket.local_addr()?)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.recv(&mut [0]).map(|_| ())
}

/// Creates a control group, which can be frozen, and removes it.
fn control_groups() -> io::Result<()> {
    let mount = cgroup_mount().ok_or_else(|| io::Error::other("cgroup v2 is not mounted"))?;
    let group = mount.join(format!("parachron-need-{}", std::process::id()));
    fs::create_dir(&group)?;
    let can_freeze = group.join("cgroup.freeze").exists();
    fs::remove_dir(&group)?;
    if can_freeze { Ok(()) } else { Err(io::Error::other("no cgroup.freeze")) }
}

/// Where cgroup v2 is mounted.
pub(crate) fn cgroup_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounted.find(|fields| fields.get(2) == Some(&"cgroup2")).map(|fields| fields[1].into())
}

fn clocksources() -> Vec<String> {
    let list = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
