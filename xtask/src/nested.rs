//! `cargo xtask e2e nested`: a stock Debian kernel in QEMU's software
//! emulation, its KVM loaded, and `parachron` running there. What a cloud
//! machine's kernel lacks (HPET, ACPI PM timer, a CMOS RTC, all of KVM's
//! clocks) is there, and the guest is thrown away, so its clock source may be
//! switched.

mod boot;
mod checks;
mod commands;
mod cpio;
mod image;
mod initramfs;
mod modules;
mod packages;
mod prepare;
mod qemu;
mod records;
mod report;

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::nested::checks::{Check, Results};
use crate::nested::packages::{Packages, Unavailable};
use crate::nested::qemu::Guest;
use crate::nested::records::Record;
use crate::nested::report::Setting;
use crate::outside;
use crate::project::Project;

/// Where the result is kept.
const PAGE: &str = "docs/validation/nested.md";

/// How long, and what becomes of the result.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds after which the guest is ended
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    limit: u32,
    /// Write the result to docs/validation/nested.md
    #[arg(long)]
    record: bool,
    /// Print what each command printed
    #[arg(long)]
    verbose: bool,
}

/// Why it went no further.
#[derive(Debug)]
enum Stop {
    Unavailable(Unavailable),
    Failed(String),
}

impl From<Unavailable> for Stop {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// What is done, and how long each phase took.
#[derive(Debug, Default)]
struct Phases(Vec<(String, f64)>);

impl Phases {
    fn time<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let took_s = start.elapsed().as_secs_f64();
        println!("{name:<16}{took_s:7.1} s");
        self.0.push((name.to_owned(), took_s));
        result
    }
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    match attempt(project, args) {
        Ok(checks) => {
            let held = checks.iter().filter(|check| check.holds).count();
            for Check { what, found, .. } in checks.iter().filter(|check| !check.holds) {
                println!("FAILED  {what}\n        {found}");
            }
            println!("nested: {held} of {} checks hold", checks.len());
            if held == checks.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(Stop::Unavailable(Unavailable { why, remedy })) => {
            println!("nested: SKIPPED: {why}; try: {remedy}");
            ExitCode::SUCCESS
        }
        Err(Stop::Failed(said)) => {
            println!("{}\nnested: FAILED", said.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn attempt(project: &Project, args: &Args) -> Result<Vec<Check>, Stop> {
    let folder = project.target_folder().join("nested");
    let mut phases = Phases::default();
    if !outside::answers(Command::new(qemu::PROGRAM).arg("--version")) {
        let why = format!("{} is not installed", qemu::PROGRAM);
        return Err(Unavailable::new(why, "apt-get install qemu-system-x86").into());
    }
    let packages = Packages { folder: folder.join("packages") };
    let (kernel, busybox) = phases.time("packages", || {
        let kernel = packages.unpacked(&packages.kernel()?)?;
        Ok::<_, Unavailable>((kernel, packages.unpacked("busybox-static")?))
    })?;
    let program = phases.time("program", || prepare::program(project))?;
    let guest = phases
        .time("initramfs", || prepare::guest(&folder, &kernel, &busybox, &program, args.limit))?;
    let records = phases.time("guest", || boot::run(&folder, &guest))?;
    if args.verbose {
        for Record { name, stdout, stderr, .. } in &records {
            println!("--- {name}\n{stdout}{stderr}");
        }
    }
    let image = phases.time("image", || prepare::image(&folder, &program))?;
    let report = phases.time("image's boot", || image::run(&folder, &image, args.limit))?;
    if args.verbose {
        println!("--- image\n{}", report.lines.join("\n"));
    }
    let mut checks = checks::all(&records);
    checks.extend(report.checks());
    if args.record {
        let results = Results(&records);
        let setting =
            Setting { lines: setting(project, &guest, results), phases: taken(phases, &records) };
        let page = report::page(&setting, &checks, results, &report);
        let path = project.path(PAGE);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, page))
            .map_err(|error| Stop::Failed(format!("{PAGE}: {error}")))?;
    }
    Ok(checks)
}

/// When, of what, on what.
fn setting(project: &Project, guest: &Guest, results: Results<'_>) -> Vec<(&'static str, String)> {
    let first_line = |command: &mut Command| {
        let said = command.output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().next().unwrap_or("not known").to_owned()
    };
    let git = &mut Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(project.root());
    vec![
        ("date", first_line(Command::new("date").args(["--utc", "+%F %R UTC"]))),
        ("commit", first_line(git)),
        ("emulator", first_line(Command::new(qemu::PROGRAM).arg("--version"))),
        ("machine", format!("`{}`", qemu::MACHINE)),
        ("kernel", results.stdout("kernel").unwrap_or("not known").to_owned()),
        ("its parameters", format!("`{}`", guest.linux.as_ref().map_or("", |linux| &linux.1))),
    ]
}

/// The phases, and below the guest's what it spent by its own clock.
fn taken(phases: Phases, records: &[Record]) -> Vec<(String, f64)> {
    let mut taken = phases.0;
    let first = records.first().map(|record| record.started_s);
    taken.extend(first.map(|s| ("guest: boot and modules".to_owned(), s)));
    let spent =
        |record: &Record| (format!("guest: {}", record.name), record.ended_s - record.started_s);
    taken.extend(records.iter().map(spent));
    taken
}
