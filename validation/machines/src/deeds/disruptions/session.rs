//! A guest under control: started, sent commands, paused, saved and restored,
//! migrated to another QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::channel::{Output, now_ns};
use super::ticks::{Tick, seconds};
use crate::deeds::snapshot;
use crate::machine::{Machine, Start};
use crate::qmp::Qmp;
use crate::records::Record;

/// How long the guest may take to accept its first command.
const BOOT: Duration = Duration::from_secs(90);

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(60);

/// How long the guest may take to print its clocks again.
const SLOW: Duration = Duration::from_secs(10);

/// How long QEMU may take to quit.
const QUIT: Duration = Duration::from_secs(10);

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
    machine: Machine,
    /// How it was started, but for what differs after a migration.
    start: Start,
    folder: PathBuf,
}

impl Session {
    /// Boots a guest, whose files go to a folder.
    pub(crate) fn boot(folder: &Path, start: &Start) -> Result<Self, String> {
        let (mut machine, output) = connect(folder, start, options(folder, Generation::Same))?;
        machine.line.ready(BOOT).map_err(|why| machine.failure(&why))?;
        Ok(Self { output, machine, start: start.clone(), folder: folder.to_owned() })
    }

    /// Runs a command in the guest.
    pub(crate) fn run(&mut self, name: &str, limit_s: u32, line: &str) -> Result<Record, String> {
        self.machine.line.run(name, limit_s, line).map_err(|why| self.machine.failure(&why))
    }

    fn qmp(&mut self) -> Result<&mut Qmp, String> {
        self.machine.qmp.as_mut().ok_or_else(|| "this machine has no QMP".to_owned())
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

    /// The clocks that the guest prints within some time, or first after it: one
    /// that was just restored is slow.
    pub(crate) fn ticks_for(&mut self, time: Duration) -> Vec<Tick> {
        let (from_ns, start) = (now_ns(), Instant::now());
        thread::sleep(time);
        loop {
            let ticks = self.ticks_since(from_ns);
            if !ticks.is_empty() || start.elapsed() > SLOW {
                return ticks;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops the guest for a while, and resumes it.
    pub(crate) fn pause(&mut self, pause: Duration) -> Result<Gap, String> {
        self.qmp()?.stop()?;
        let stopped_ns = now_ns();
        thread::sleep(pause);
        let resumed_ns = now_ns();
        self.qmp()?.cont()?;
        Ok(Gap { stopped_ns, resumed_ns })
    }

    /// Saves the guest, lets it run for a while, and restores the saved state in
    /// the same QEMU. The gap begins when it was saved.
    pub(crate) fn save_and_load(&mut self, between: Duration) -> Result<Gap, String> {
        let nodes = self.qmp()?.execute("query-named-block-nodes", json!({}))?;
        if !nodes.as_array().into_iter().flatten().any(|node| node["node-name"] == snapshot::DISK) {
            let file = self.folder.join("snapshots.qcow2").display().to_string();
            snapshot::create_disk(self.qmp()?, &file)?;
        }
        // Each snapshot has a name of its own.
        let tag = format!("at-{}", now_ns());
        let arguments =
            json!({ "tag": tag, "vmstate": snapshot::DISK, "devices": [snapshot::DISK] });
        self.qmp()?.job("snapshot-save", arguments.clone(), MEMORY)?;
        let stopped_ns = now_ns();
        thread::sleep(between);
        self.qmp()?.job("snapshot-load", arguments, MEMORY)?;
        Ok(Gap { stopped_ns, resumed_ns: now_ns() })
    }

    /// Saves the guest to a file, lets it run for a while, and resumes it from
    /// the file in a new QEMU. The gap begins when it was saved.
    pub(crate) fn migrate(
        &mut self,
        between: Duration,
        generation: Generation,
    ) -> Result<Gap, String> {
        self.qmp()?.stop()?;
        let stopped_ns = now_ns();
        let file = self.folder.join("migrated");
        let to_file = format!("exec:cat >'{}'", file.display());
        self.qmp()?.migrate(&to_file, MEMORY)?;
        if !between.is_zero() {
            self.qmp()?.cont()?;
            thread::sleep(between);
        }
        self.quit()?;
        let mut more = options(&self.folder, generation);
        let from_file = format!("exec:cat '{}'", file.display());
        more.extend(["-incoming".to_owned(), from_file]);
        let (machine, output) = connect(&self.folder, &self.start, more)?;
        self.output.switch_to(output);
        self.machine = machine;
        self.qmp()?.loaded(MEMORY).map_err(|why| self.machine.failure(&why))?;
        let resumed_ns = now_ns();
        self.qmp()?.cont()?;
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
        self.qmp()?.execute("quit", json!({}))?;
        let requested = Instant::now();
        while !self.machine.has_ended()? {
            if requested.elapsed() > QUIT {
                return Err(self.machine.failure("QEMU did not quit"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Starts QEMU with further options, and connects to it.
fn connect(folder: &Path, start: &Start, more: Vec<String>) -> Result<(Machine, Output), String> {
    let mut start = start.clone();
    start.arguments.extend(more);
    let machine = Machine::start(&start, folder)?;
    let output = Output::connect(&folder.join("output")).map_err(|why| machine.failure(&why))?;
    Ok((machine, output))
}

/// What this guest has in addition: an RTC that follows this machine's time even
/// while the guest is stopped, a generation ID, and a serial line for the output
/// of background programs.
fn options(folder: &Path, generation: Generation) -> Vec<String> {
    let path = |name: &str| format!("{}", folder.join(name).display());
    let socket = |name: &str| format!("socket,id={name},path={},server=on,wait=off", path(name));
    let options = [
        ["-rtc", "base=utc,clock=host"],
        ["-device", &format!("vmgenid,guid={}", generation.id())],
        ["-chardev", &socket("output")],
        ["-device", "pci-serial,chardev=output"],
    ];
    options.concat().into_iter().map(str::to_owned).collect()
}
