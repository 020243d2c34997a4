//! `parachrond`: crate `daemon` as a program. Its options, its configuration,
//! its log, its exit code.

mod arguments;
mod error;
mod gate_tasks;
mod log;
mod metrics;
mod records;
mod scrapes;

use std::process::ExitCode;

use arguments::{Arguments, Task};
use daemon::configuration;
use daemon::{Daemon, Settings, gate};
use error::ProgramError;
use linux::wait::{Signals, WaitUntil};
use log::DaemonLog;

fn main() -> ExitCode {
    let log = DaemonLog::open();
    let code = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => run(&arguments, &log),
        Err(why) => Err(ProgramError::Usage(why)),
    };
    match code {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&error.to_string(), &error.remedy());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(arguments: &Arguments, log: &DaemonLog) -> Result<(), ProgramError> {
    match &arguments.task {
        Task::Help => arguments::print(&arguments::help()),
        Task::Version => arguments::print(concat!("parachrond ", env!("CARGO_PKG_VERSION"), "\n")),
        Task::Check => {
            let (settings, was_read) = settings(arguments)?;
            daemon::check_sources(&settings).map_err(ProgramError::Daemon)?;
            let file = arguments.file();
            let is = if was_read { "no mistakes" } else { "not found; using defaults" };
            arguments::print(&format!("{}: {is}\n", file.display()));
        }
        Task::PrepareGate => gate_tasks::prepare(arguments)?,
        Task::Thaw => gate_tasks::thaw(arguments)?,
        Task::WatchGate { list, limit } => gate::watch(list, *limit).map_err(ProgramError::Gate)?,
        Task::Keep => keep(arguments, log)?,
    }
    Ok(())
}

fn keep(arguments: &Arguments, log: &DaemonLog) -> Result<(), ProgramError> {
    // Before all else: a reload that comes early is not to end it.
    let signals = Signals::of_a_daemon().map_err(ProgramError::Signals)?;
    let (settings, _) = settings(arguments)?;
    let change = if arguments.is_dry_run { make_dry } else { keep_settings };
    let metrics = metrics::Metrics::open(&settings, log)?;
    let recording = records::MinuteRecording::new(&settings);
    let daemon = Daemon::new(settings)?;
    let is_optional = arguments.config.is_none();
    let mut daemon = daemon.reloading(arguments.file().to_owned(), is_optional, change);
    log.write(&daemon.started());
    if let Some(metrics) = metrics {
        metrics.serve(daemon.board())?;
    }
    if let Some(recording) = recording {
        recording.begin(daemon.board())?;
    }
    daemon.run(WaitUntil::new(signals), |line| log.write(&line))?;
    Ok(())
}

/// What is published shows the real clock, so that a fleet can be piloted; what was learnt by a
/// clock that is not corrected is of no use to the next start.
fn make_dry(settings: &mut Settings) {
    settings.dry_run = true;
    settings.state_folder = None;
}

fn keep_settings(_: &mut Settings) {}

/// The settings, and whether there is a file. Without one, and none named, they
/// are the defaults.
fn settings(arguments: &Arguments) -> Result<(Settings, bool), ProgramError> {
    let loaded = configuration::load_or_default(arguments.file(), arguments.config.is_none());
    let (mut settings, was_read) = loaded?;
    if arguments.is_dry_run {
        make_dry(&mut settings);
    }
    Ok((settings, was_read))
}
