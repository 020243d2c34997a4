//! A guest under control: started, sent commands, paused, saved and restored,
//! migrated to another QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::channel::{CommandLine, Output, now_ns};
use super::ticks::{Tick, seconds};
use crate::boot::{self, readable};
use crate::qemu::{Guest, Running};
use crate::qmp::Qmp;
use crate::records::Record;

/// How long the guest may take to accept its first command.
const BOOT: Duration = Duration::from_secs(90);

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(60);

/// How long QEMU may take to quit.
const QUIT: Duration = Duration::from_secs(10);

/// The node that holds snapshots, and the file below it.
const DISK: &str = "snapshots";
const DISK_FILE: &str = "snapshots-file";

/// Whether a guest that resumes is the one that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// It was migrated.
    Same,
    /// It was restored from a snapshot, or copied.
    Other,
}

impl Generation {
    /// The generation ID that its host gives it (Microsoft: Virtual Machine
    /// Generation ID; Linux: drivers/virt/vmgenid.c).
    fn id(self) -> String {
        match self {
            Self::Same => "324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87".to_owned(),
            // A new one each time: a repeated attempt restores again.
            Self::Other => format!("ad1b3c4e-94b5-4a8c-8d23-{:012x}", now_ns() & 0xffff_ffff_ffff),
        }
    }
}

/// When the guest did not run, by this machine's time of day, ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// It was stopped then.
    pub(crate) stopped_ns: i64,
    /// It resumed then.
    pub(crate) resumed_ns: i64,
}

impl Gap {
    /// How long it was, s.
    pub(crate) fn pause_s(self) -> f64 {
        seconds(self.resumed_ns - self.stopped_ns)
    }
}

/// A running guest.
#[derive(Debug)]
pub(crate) struct Session {
    /// The output of its background programs.
    pub(crate) output: Output,
    commands: CommandLine,
    qmp: Qmp,
    running: Running,
    guest: Guest,
    folder: PathBuf,
}

impl Session {
    /// Boots a guest. Its folder is emptied first, and holds all its files.
    pub(crate) fn boot(folder: &Path, mut guest: Guest) -> Result<Self, String> {
        // It may not exist yet; any other error comes back below.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        guest.serial_ports = vec![folder.join("console")];
        guest.more = options(folder, Generation::Same);
        let (mut commands, output, qmp, running) = start(folder, &guest)?;
        commands.ready(BOOT).map_err(|why| with_console(folder, &why))?;
        Ok(Self { output, commands, qmp, running, guest, folder: folder.to_owned() })
    }

    /// Runs a command in the guest.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        self.commands.run(name, limit_s, line).map_err(|why| with_console(&self.folder, &why))
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn execute(&mut self, name: &str, line: &str) -> Result<String, String> {
        let Record { status, stdout, stderr, .. } = self.run(name, 20, line)?;
        if status == 0 {
            return Ok(stdout.trim().to_owned());
        }
        Err(format!("{name}: exit code {status}: {}{}", stdout.trim(), stderr.trim()))
    }

    /// The clocks that the guest has printed from a moment on.
    pub(crate) fn ticks_since(&mut self, from_ns: i64) -> Vec<Tick> {
        let lines = self.output.lines().iter().filter(|line| line.at_ns >= from_ns);
        lines.filter_map(Tick::parse).collect()
    }

    /// The clocks that the guest prints within some time.
    pub(crate) fn ticks_for(&mut self, time: Duration) -> Vec<Tick> {
        let from_ns = now_ns();
        thread::sleep(time);
        self.ticks_since(from_ns)
    }

    /// Stops the guest for a while, and resumes it.
    pub(crate) fn pause(&mut self, pause: Duration) -> Result<Gap, String> {
        self.qmp.stop()?;
        let stopped_ns = now_ns();
        thread::sleep(pause);
        let resumed_ns = now_ns();
        self.qmp.cont()?;
        Ok(Gap { stopped_ns, resumed_ns })
    }

    /// Saves the guest, lets it run for a while, and restores the saved state in
    /// the same QEMU. The gap begins when it was saved.
    pub(crate) fn save_and_load(&mut self, between: Duration) -> Result<Gap, String> {
        let nodes = self.qmp.execute("query-named-block-nodes", json!({}))?;
        if !nodes.as_array().into_iter().flatten().any(|node| node["node-name"] == DISK) {
            self.create_disk()?;
        }
        // Each snapshot has a name of its own.
        let tag = format!("at-{}", now_ns());
        let arguments = json!({ "tag": tag, "vmstate": DISK, "devices": [DISK] });
        self.qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
        let stopped_ns = now_ns();
        thread::sleep(between);
        self.qmp.job("snapshot-load", arguments, MEMORY)?;
        Ok(Gap { stopped_ns, resumed_ns: now_ns() })
    }

    /// A disk for snapshots, not visible to the guest.
    fn create_disk(&mut self) -> Result<(), String> {
        let file = self.folder.join("snapshots.qcow2");
        let options = json!({ "driver": "file", "filename": file, "size": 0 });
        self.qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
        let node = json!({ "driver": "file", "filename": file, "node-name": DISK_FILE });
        self.qmp.execute("blockdev-add", node)?;
        let options = json!({ "driver": "qcow2", "file": DISK_FILE, "size": 1 << 20 });
        self.qmp.job("blockdev-create", json!({ "options": options }), MEMORY)?;
        let node = json!({ "driver": "qcow2", "file": DISK_FILE, "node-name": DISK });
        self.qmp.execute("blockdev-add", node).map(drop)
    }

    /// Saves the guest to a file, lets it run for a while, and resumes it from
    /// the file in a new QEMU. The gap begins when it was saved.
    pub(crate) fn migrate(
        &mut self,
        between: Duration,
        generation: Generation,
    ) -> Result<Gap, String> {
        self.qmp.stop()?;
        let stopped_ns = now_ns();
        let file = self.folder.join("migrated");
        let to_file = format!("exec:cat >'{}'", file.display());
        self.qmp.migrate(&to_file, MEMORY)?;
        if !between.is_zero() {
            self.qmp.cont()?;
            thread::sleep(between);
        }
        self.quit()?;
        self.guest.more = options(&self.folder, generation);
        let from_file = format!("exec:cat '{}'", file.display());
        self.guest.more.extend(["-incoming".to_owned(), from_file]);
        let (commands, output, qmp, running) = start(&self.folder, &self.guest)?;
        self.output.switch_to(output);
        (self.commands, self.qmp, self.running) = (commands, qmp, running);
        self.qmp.loaded(MEMORY).map_err(|error| with_console(&self.folder, &error))?;
        let resumed_ns = now_ns();
        self.qmp.cont()?;
        Ok(Gap { stopped_ns, resumed_ns })
    }

    /// Ends the guest, and removes its large files.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.quit()?;
        for file in ["snapshots.qcow2", "migrated"] {
            // They exist only if the guest was saved.
            let _ = fs::remove_file(self.folder.join(file));
        }
        Ok(())
    }

    fn quit(&mut self) -> Result<(), String> {
        self.qmp.execute("quit", json!({}))?;
        let requested = Instant::now();
        while self.running.end().map_err(|error| error.to_string())?.is_none() {
            if requested.elapsed() > QUIT {
                return Err(with_console(&self.folder, "QEMU did not quit"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Starts QEMU, and connects to it.
fn start(folder: &Path, guest: &Guest) -> Result<(CommandLine, Output, Qmp, Running), String> {
    let running = guest.start(&folder.join("qemu")).map_err(|error| error.to_string())?;
    let connected = (|| {
        let qmp = Qmp::connect(&folder.join("qmp"))?;
        let output = Output::connect(&folder.join("output"))?;
        Ok((CommandLine::connect(&folder.join("commands"))?, output, qmp))
    })();
    let (commands, output, qmp) = connected.map_err(|why: String| with_console(folder, &why))?;
    Ok((commands, output, qmp, running))
}

/// What this guest has in addition: a network on which its host is 10.0.2.2,
/// an RTC that follows this machine's time even while the guest is stopped, a
/// generation ID, and two serial lines.
fn options(folder: &Path, generation: Generation) -> Vec<String> {
    let path = |name: &str| format!("{}", folder.join(name).display());
    let socket = |name: &str| format!("socket,id={name},path={},server=on,wait=off", path(name));
    let options = [
        ["-qmp", &format!("unix:{},server=on,wait=off", path("qmp"))],
        ["-rtc", "base=utc,clock=host"],
        ["-netdev", "user,id=net"],
        ["-device", "virtio-net-pci,netdev=net,romfile="],
        ["-device", &format!("vmgenid,guid={}", generation.id())],
        ["-chardev", &socket("commands")],
        ["-serial", "chardev:commands"],
        ["-chardev", &socket("output")],
        ["-device", "pci-serial,chardev=output"],
    ];
    options.concat().into_iter().map(str::to_owned).collect()
}

/// An error, with the errors of QEMU and the end of the guest's console.
fn with_console(folder: &Path, why: &str) -> String {
    let file = |name| readable(&fs::read(folder.join(name)).unwrap_or_default());
    boot::failure(why, &file("qemu"), &file("console"))
}
