//! A guest whose life is disturbed from outside: started, talked with,
//! stopped, saved and put back, moved to another QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::line::{Commands, Telling, now_ns};
use crate::nested::boot::{self, readable};
use crate::nested::qemu::{Guest, Running};
use crate::nested::qmp::{Qmp, QmpError};
use crate::nested::records::Record;

/// How long the guest may take from its start to the first command.
const BOOT: Duration = Duration::from_secs(90);

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(60);

/// QEMU's end comes this long after it is asked for, at most.
const END: Duration = Duration::from_secs(10);

/// The node that snapshots are kept in, and the file below it.
const DISK: &str = "snapshots";
const DISK_FILE: &str = "snapshots-file";

/// Whether a guest that runs again is the one that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// It was moved: a live migration.
    Same,
    /// It was put back from a snapshot, or copied.
    Other,
}

impl Generation {
    /// The generation ID that its host gives it (Microsoft: Virtual Machine
    /// Generation ID; Linux: drivers/virt/vmgenid.c).
    fn id(self) -> &'static str {
        match self {
            Self::Same => "324e6eaf-d1d1-4bf6-bf41-b9bb6c91fb87",
            Self::Other => "ad1b3c4e-94b5-4a8c-8d23-8b7c05d9f2a1",
        }
    }
}

/// When the guest did not live, by this machine's time of day, ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// From then on.
    pub(crate) stopped_ns: i64,
    /// It ran again from then on.
    pub(crate) resumed_ns: i64,
}

/// A guest that runs.
#[derive(Debug)]
pub(crate) struct Session {
    /// What the guest tells of itself.
    pub(crate) telling: Telling,
    commands: Commands,
    qmp: Qmp,
    running: Running,
    guest: Guest,
    folder: PathBuf,
}

impl Session {
    /// Boots a guest. Its folder is emptied first, and holds all its files.
    pub(crate) fn boot(folder: &Path, mut guest: Guest) -> Result<Self, String> {
        // What is not there need not be emptied; the rest is told below.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        guest.serial_ports = vec![folder.join("console")];
        guest.more = options(folder, Generation::Same);
        let (mut commands, telling, qmp, running) = started(folder, &guest)?;
        commands.ready(BOOT).map_err(|why| explained(folder, &why))?;
        Ok(Self { telling, commands, qmp, running, guest, folder: folder.to_owned() })
    }

    /// Has a command line run in the guest.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        self.commands.run(name, limit_s, line).map_err(|why| explained(&self.folder, &why))
    }

    /// Has one run that must end well, and hands on what it printed.
    pub(crate) fn ask(&mut self, name: &str, line: &str) -> Result<String, String> {
        let Record { status, stdout, stderr, .. } = self.run(name, 20, line)?;
        if status == 0 {
            return Ok(stdout.trim().to_owned());
        }
        Err(format!("{name}: exit code {status}: {}{}", stdout.trim(), stderr.trim()))
    }

    /// Stops the guest for a while.
    pub(crate) fn pause(&mut self, pause: Duration) -> Result<Gap, String> {
        self.qmp.stop().map_err(said)?;
        let stopped_ns = now_ns();
        thread::sleep(pause);
        let resumed_ns = now_ns();
        self.qmp.cont().map_err(said)?;
        Ok(Gap { stopped_ns, resumed_ns })
    }

    /// Saves the guest, lets it live on for a while, and puts it back as it
    /// was, in the same QEMU. The gap begins when it was saved.
    pub(crate) fn save_and_load(&mut self, between: Duration) -> Result<Gap, String> {
        let nodes = self.qmp.execute("query-named-block-nodes", json!({})).map_err(said)?;
        if !nodes.as_array().into_iter().flatten().any(|node| node["node-name"] == DISK) {
            self.make_disk().map_err(said)?;
        }
        // Each snapshot has a name of its own.
        let tag = format!("at-{}", now_ns());
        let arguments = json!({ "tag": tag, "vmstate": DISK, "devices": [DISK] });
        self.qmp.job("snapshot-save", arguments.clone(), MEMORY).map_err(said)?;
        let stopped_ns = now_ns();
        thread::sleep(between);
        self.qmp.job("snapshot-load", arguments, MEMORY).map_err(said)?;
        Ok(Gap { stopped_ns, resumed_ns: now_ns() })
    }

    /// A disk that no guest sees, for snapshots alone.
    fn make_disk(&mut self) -> Result<(), QmpError> {
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

    /// Saves the guest to a file, lets it live on for a while, and lets it run
    /// again from the file in another QEMU, which knows nothing of the first.
    /// The gap begins when it was saved.
    pub(crate) fn move_to_another(
        &mut self,
        between: Duration,
        generation: Generation,
    ) -> Result<Gap, String> {
        self.qmp.stop().map_err(said)?;
        let stopped_ns = now_ns();
        let file = self.folder.join("moved");
        let to_file = format!("exec:cat >'{}'", file.display());
        self.qmp.migrate(&to_file, MEMORY).map_err(said)?;
        if !between.is_zero() {
            self.qmp.cont().map_err(said)?;
            thread::sleep(between);
        }
        self.quit()?;
        self.guest.more = options(&self.folder, generation);
        let from_file = format!("exec:cat '{}'", file.display());
        self.guest.more.extend(["-incoming".to_owned(), from_file]);
        let (commands, telling, qmp, running) = started(&self.folder, &self.guest)?;
        self.telling.go_on(telling);
        (self.commands, self.qmp, self.running) = (commands, qmp, running);
        self.qmp.loaded(MEMORY).map_err(|error| explained(&self.folder, &said(error)))?;
        let resumed_ns = now_ns();
        self.qmp.cont().map_err(said)?;
        Ok(Gap { stopped_ns, resumed_ns })
    }

    /// Ends the guest, and removes what is large of it.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.quit()?;
        for file in ["snapshots.qcow2", "moved"] {
            // Not every guest was saved.
            let _ = fs::remove_file(self.folder.join(file));
        }
        Ok(())
    }

    fn quit(&mut self) -> Result<(), String> {
        self.qmp.execute("quit", json!({})).map_err(said)?;
        let asked = Instant::now();
        while self.running.end().map_err(|error| error.to_string())?.is_none() {
            if asked.elapsed() > END {
                return Err(explained(&self.folder, "QEMU did not quit"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Starts QEMU, and connects to it.
fn started(folder: &Path, guest: &Guest) -> Result<(Commands, Telling, Qmp, Running), String> {
    let running = guest.start(&folder.join("qemu")).map_err(|error| error.to_string())?;
    let connected = (|| {
        let qmp = Qmp::connect(&folder.join("qmp")).map_err(said)?;
        let telling = Telling::connect(&folder.join("telling"))?;
        Ok((Commands::connect(&folder.join("commands"))?, telling, qmp))
    })();
    let (commands, telling, qmp) = connected.map_err(|why: String| explained(folder, &why))?;
    Ok((commands, telling, qmp, running))
}

/// What this guest has beyond the machine: a network behind which its host
/// is 10.0.2.2, an RTC that counts this machine's time whatever becomes of
/// the guest, a generation ID, and two serial ports that are talked over.
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
        ["-chardev", &socket("telling")],
        ["-device", "pci-serial,chardev=telling"],
    ];
    options.concat().into_iter().map(str::to_owned).collect()
}

fn said(error: QmpError) -> String {
    error.to_string()
}

/// What went wrong, with what QEMU and the guest's console say.
fn explained(folder: &Path, why: &str) -> String {
    let file = |name| readable(&fs::read(folder.join(name)).unwrap_or_default());
    boot::failure(why, &file("qemu"), &file("console"))
}
