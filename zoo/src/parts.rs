//! The parts of a run, one after another, and the page that records it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::args::{Args, Part};
use crate::artifacts::{self, Artifacts, GuestSpec};
use crate::checks::{self, Check, Outputs};
use crate::commands::COMMANDS;
use crate::outcome::{Failure, Phases, Unavailable};
use crate::packages::Packages;
use crate::qemu::{self, Guest};
use crate::records::Record;
use crate::{boot, disruptions, image, report, tools};

/// The page that `--record` writes.
const PAGE: &str = "docs/validation/nested.md";

/// The checks, and what could not run on this machine.
pub(crate) fn run(args: &Args) -> Result<(Vec<Check>, Vec<Unavailable>), Failure> {
    let mut phases = Phases::default();
    let artifacts = prepare(&mut phases)?;
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let kernel = wanted(Part::Kernel).then(|| kernel_part(&artifacts, args, &mut phases));
    let kernel = kernel.transpose()?;
    let mut checks: Vec<Check> =
        kernel.iter().flat_map(|(_, records)| checks::all(records)).collect();
    let image = wanted(Part::Image).then(|| image_part(&artifacts, args, &mut phases));
    let image = image.transpose()?;
    checks.extend(image.iter().flat_map(image::Report::checks));
    let disruptions = wanted(Part::Disruptions)
        .then(|| disruptions::run(&artifacts, args.limit, &mut phases))
        .transpose()?;
    if let (true, Some((guest, records)), Some(image), Some(disruptions)) =
        (args.record, kernel, image, &disruptions)
    {
        let outputs = Outputs(&records);
        let (setting, durations) = (setting(&guest, outputs), durations(phases, &records));
        write_page(&report::page(&setting, &durations, &checks, outputs, &image, disruptions))?;
    }
    let disruptions = disruptions.unwrap_or_default();
    checks.extend(disruptions.checks);
    Ok((checks, disruptions.skipped))
}

/// Everything the guests are built from.
fn prepare(phases: &mut Phases) -> Result<Artifacts, Failure> {
    let folder = tools::target_folder().join("machines");
    if tools::find_program(qemu::PROGRAM).is_none() {
        let why = format!("{} is not installed", qemu::PROGRAM);
        return Err(Unavailable::new(why, "apt-get install qemu-system-x86").into());
    }
    let packages = Packages { folder: folder.join("packages") };
    let (kernel, busybox) = phases.time("packages", || {
        let kernel = packages.unpacked(&packages.kernel()?)?;
        Ok::<_, Unavailable>((kernel, packages.unpacked("busybox-static")?))
    })?;
    let programs = phases.time("programs", artifacts::programs)?;
    Ok(Artifacts { folder, kernel, busybox, programs })
}

/// The stock kernel with KVM, and the records of its commands.
fn kernel_part(
    artifacts: &Artifacts,
    args: &Args,
    phases: &mut Phases,
) -> Result<(Guest, Vec<Record>), Failure> {
    let spec = GuestSpec {
        name: "kernel",
        programs: &[],
        modules: &["kvm-amd"],
        commands: COMMANDS,
        parameters: "",
        limit_s: args.limit,
    };
    let guest = phases.time("initramfs", || artifacts.guest(&spec))?;
    let records = phases.time("guest", || boot::run_commands(&artifacts.folder, &guest))?;
    if args.verbose {
        for Record { name, stdout, stderr, .. } in &records {
            println!("--- {name}\n{stdout}{stderr}");
        }
    }
    Ok((guest, records))
}

/// The lab's own guest image, and its report.
fn image_part(
    artifacts: &Artifacts,
    args: &Args,
    phases: &mut Phases,
) -> Result<image::Report, Failure> {
    let image: PathBuf = phases.time("image", || artifacts.image())?;
    let report =
        phases.time("image: boot", || image::run(&artifacts.folder, &image, args.limit))?;
    if args.verbose {
        println!("--- image\n{}", report.lines.join("\n"));
    }
    Ok(report)
}

fn write_page(page: &str) -> Result<(), Failure> {
    let path = tools::root().join(PAGE);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&path, page))
        .map_err(|error| Failure::Failed(format!("{PAGE}: {error}")))
}

/// Date, versions and machine of a run.
fn setting(guest: &Guest, outputs: Outputs<'_>) -> Vec<(&'static str, String)> {
    let first_line = |command: &mut Command| {
        let output = tools::output_of(command).unwrap_or_default();
        output.lines().next().unwrap_or("not known").to_owned()
    };
    let git = &mut Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(tools::root());
    vec![
        ("date", first_line(Command::new("date").args(["--utc", "+%F %R UTC"]))),
        ("commit", first_line(git)),
        ("emulator", first_line(Command::new(qemu::PROGRAM).arg("--version"))),
        ("machine", format!("`{}`", qemu::MACHINE)),
        ("kernel", outputs.stdout("kernel").unwrap_or("not known").to_owned()),
        ("its parameters", format!("`{}`", guest.linux.as_ref().map_or("", |linux| &linux.1))),
    ]
}

/// The phases, then what the first guest spent on each command by its own
/// clock.
fn durations(phases: Phases, records: &[Record]) -> Vec<(String, f64)> {
    let mut durations = phases.0;
    let first = records.first().map(|record| record.started_s);
    durations.extend(first.map(|s| ("guest: boot and modules".to_owned(), s)));
    let spent =
        |record: &Record| (format!("guest: {}", record.name), record.ended_s - record.started_s);
    durations.extend(records.iter().map(spent));
    durations
}
