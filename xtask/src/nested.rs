//! `cargo xtask e2e nested`: a stock Debian kernel in QEMU's software
//! emulation, its KVM loaded, and `parachron` running there. What a cloud
//! machine's kernel lacks (HPET, ACPI PM timer, a CMOS RTC, all of KVM's
//! clocks) is there, and the guest is thrown away, so its clock source may be
//! switched.

mod boot;
mod checks;
mod commands;
mod cpio;
mod disruptions;
mod image;
mod initramfs;
mod modules;
mod packages;
mod prepare;
mod qemu;
mod qmp;
mod records;
mod report;

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::nested::checks::{Check, Results};
use crate::nested::commands::COMMANDS;
use crate::nested::packages::{Packages, Unavailable};
use crate::nested::prepare::{Ground, Kind};
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
    #[arg(long, conflicts_with = "only")]
    record: bool,
    /// Do one part alone
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Print what each command printed, and what was found in each check
    #[arg(long)]
    verbose: bool,
}

/// The parts, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// A stock kernel with KVM
    Kernel,
    /// The lab's own guest image
    Image,
    /// A stock kernel that is stopped, saved and put back
    Disruptions,
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
            for Check { what, found, holds } in &checks {
                if !holds || args.verbose {
                    let verdict = if *holds { "holds " } else { "FAILED" };
                    println!("{verdict}  {what}\n        {found}");
                }
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
    let programs = phases.time("programs", || prepare::programs(project))?;
    let ground = Ground { folder, kernel, busybox, programs };
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let mut checks = Vec::new();
    let kernel = wanted(Part::Kernel).then(|| kernel_part(&ground, args, &mut phases));
    let kernel = kernel.transpose()?;
    if let Some((_, records)) = &kernel {
        checks.extend(checks::all(records));
    }
    let image = wanted(Part::Image).then(|| image_part(&ground, args, &mut phases)).transpose()?;
    checks.extend(image.iter().flat_map(image::Report::checks));
    let disruptions = wanted(Part::Disruptions)
        .then(|| disruptions::run(&ground, args.limit, &mut phases))
        .transpose()?;
    if let (true, Some((guest, records)), Some(image), Some(disruptions)) =
        (args.record, kernel, image, &disruptions)
    {
        let results = Results(&records);
        let setting =
            Setting { lines: setting(project, &guest, results), phases: taken(phases, &records) };
        let page = report::page(&setting, &checks, results, &image, disruptions);
        let path = project.path(PAGE);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, page))
            .map_err(|error| Stop::Failed(format!("{PAGE}: {error}")))?;
    }
    checks.extend(disruptions.into_iter().flat_map(|findings| findings.checks));
    Ok(checks)
}

/// The stock kernel with KVM, and what its commands said.
fn kernel_part(
    ground: &Ground,
    args: &Args,
    phases: &mut Phases,
) -> Result<(Guest, Vec<Record>), Stop> {
    let kind = Kind {
        name: "kernel",
        programs: &[],
        modules: &["kvm-amd"],
        commands: COMMANDS,
        parameters: "",
        limit_s: args.limit,
    };
    let guest = phases.time("initramfs", || prepare::guest(ground, &kind))?;
    let records = phases.time("guest", || boot::run(&ground.folder, &guest))?;
    if args.verbose {
        for Record { name, stdout, stderr, .. } in &records {
            println!("--- {name}\n{stdout}{stderr}");
        }
    }
    Ok((guest, records))
}

/// The lab's own guest image, and its report.
fn image_part(ground: &Ground, args: &Args, phases: &mut Phases) -> Result<image::Report, Stop> {
    let Ground { folder, programs, .. } = ground;
    let image = phases.time("image", || prepare::image(folder, &programs.parachron))?;
    let report = phases.time("image's boot", || image::run(folder, &image, args.limit))?;
    if args.verbose {
        println!("--- image\n{}", report.lines.join("\n"));
    }
    Ok(report)
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
