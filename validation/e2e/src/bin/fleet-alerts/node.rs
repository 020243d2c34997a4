//! A node: its daemon, which sets no clock, and what stands beside it.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use linux::vmclock::PublishedVmClock;
use pvclock::vmclock::VmClockInfo;
use rustix::process::{Pid, Signal, kill_process};

use crate::namespaces::{address, command};
use crate::servers::ADDRESSES;

/// As `parachrond` and `parachron export` have it by default.
const PORT: u16 = 9975;

/// What a node is before anything is caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A daemon that serves its metrics, by three servers.
    Common,
    /// By one server.
    OneServer,
    /// With a VMClock page, which tells disruptions and no time.
    Page,
    /// Its metrics are served by `parachron export` beside it.
    ExporterBeside,
}

pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) kind: Kind,
    pub(crate) daemon: Child,
    programs: PathBuf,
    folder: PathBuf,
}

impl Node {
    pub(crate) fn start(
        index: usize,
        kind: Kind,
        programs: &Path,
        folder: &Path,
    ) -> io::Result<Self> {
        let folder = folder.join(index.to_string());
        fs::create_dir(&folder)?;
        fs::write(folder.join("parachrond.toml"), configuration(index, kind, &folder))?;
        // As a device it is there before the daemon.
        if kind == Kind::Page {
            write_page(&folder, 1)?;
        }
        let daemon = spawn_daemon(index, programs, &folder)?;
        let node = Self { index, kind, daemon, programs: programs.to_owned(), folder };
        if kind == Kind::ExporterBeside {
            node.start_exporter()?;
        }
        Ok(node)
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        address(self.index)
    }

    /// What is scraped.
    pub(crate) fn target(&self) -> String {
        format!("{}:{PORT}", self.address())
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = Pid::from_child(&self.daemon);
        Ok(kill_process(id, signal)?)
    }

    /// What its daemon has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// After it has ended.
    pub(crate) fn start_daemon(&mut self) -> io::Result<()> {
        self.daemon = spawn_daemon(self.index, &self.programs, &self.folder)?;
        Ok(())
    }

    /// Its host tells that something happened to it.
    pub(crate) fn disrupt(&self) -> io::Result<()> {
        write_page(&self.folder, 2)
    }

    fn start_exporter(&self) -> io::Result<()> {
        let mut exporter = command(self.index, &self.programs.join("parachron"));
        exporter.args(["export", &format!("--listen={}", self.target()), "--socket"]);
        exporter.arg(self.folder.join("status.sock")).stdout(Stdio::null());
        // It ends with the namespace.
        exporter.spawn().map(|_| ())
    }
}

/// A VMClock page as of QEMU and Firecracker: a marker of disruptions, and no time.
fn write_page(folder: &Path, disruption_marker: u64) -> io::Result<()> {
    let page = VmClockInfo { size: 4096, disruption_marker, ..VmClockInfo::ZERO };
    PublishedVmClock::open(&folder.join("vmclock"), &page)?.0.write(&page)
}

fn spawn_daemon(index: usize, programs: &Path, folder: &Path) -> io::Result<Child> {
    let log = File::options().append(true).create(true).open(folder.join("log"))?;
    let mut daemon = command(index, &programs.join("parachrond"));
    daemon.arg("--config").arg(folder.join("parachrond.toml"));
    daemon.stdout(Stdio::null()).stderr(log).spawn()
}

/// What is not here is as it ships: servers are polled each 64 s.
fn configuration(index: usize, kind: Kind, folder: &Path) -> String {
    let servers = if kind == Kind::OneServer { &ADDRESSES[..1] } else { &ADDRESSES };
    let servers: Vec<String> = servers.iter().map(Ipv4Addr::to_string).collect();
    let metrics = match kind {
        Kind::ExporterBeside => String::new(),
        _ => format!("metrics = \"{}:{PORT}\"\nconsumers = [\"cockroachdb\"]\n", address(index)),
    };
    // Of the machine's own devices all nodes would see the same; its daemons are not seen here,
    // which is what `force` is for.
    format!(
        "ntp = {servers:?}\ndry-run = true\nforce = true\nno-source = [\"phc\", \"rtc\"]\n\
         state-folder = \"\"\nclockbound = \"\"\nkernel-log = \"/dev/null\"\n\
         status-socket = \"{0}/status.sock\"\nvmclock = \"{0}/vmclock\"\n{metrics}",
        folder.display()
    )
}
