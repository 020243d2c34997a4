//! `parachrond`: crate `daemon` as a program. Its options, its configuration,
//! its log, its exit code.

mod arguments;
mod asking;
mod log;
mod metrics;
mod minutes;
mod recording;

use std::path::Path;
use std::process::ExitCode;

use arguments::{Arguments, Task};
use daemon::configuration;
use daemon::{Daemon, Settings, advice, program};
use linux::wait::{Signals, Wait};
use log::Log;

fn main() -> ExitCode {
    let log = Log::open();
    let code = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(arguments) => run(&arguments, &log),
        Err(why) => Err((why, "parachrond --help".into(), program::USAGE)),
    };
    match code {
        Ok(()) => ExitCode::SUCCESS,
        Err((cause, remedy, code)) => {
            log.error(&cause, &remedy);
            ExitCode::from(code)
        }
    }
}

/// Cause, remedy, exit code.
type Failure = (String, String, u8);

fn run(arguments: &Arguments, log: &Log) -> Result<(), Failure> {
    match arguments.task {
        Task::Help => arguments::print(&arguments::help()),
        Task::Version => arguments::print(concat!("parachrond ", env!("CARGO_PKG_VERSION"), "\n")),
        Task::Check => {
            let (settings, was_read) = settings(arguments)?;
            metrics::access(&settings)?;
            let file = arguments.file();
            let is = if was_read { "no mistake" } else { "not there, so all is as by default" };
            arguments::print(&format!("{}: {is}\n", file.display()));
        }
        Task::Keep => keep(arguments, log)?,
    }
    Ok(())
}

fn keep(arguments: &Arguments, log: &Log) -> Result<(), Failure> {
    // Before all else: a reload that comes early is not to end it.
    let signals = Signals::of_a_daemon()
        .map_err(|why| (format!("cannot wait: {why}"), "ulimit -n".into(), program::FAILED))?;
    let (settings, _) = settings(arguments)?;
    let change = if arguments.is_dry_run { dry } else { as_it_is };
    let metrics = metrics::Metrics::open(&settings, log)?;
    let recording = recording::Recording::of(&settings)?;
    let failed = |why| {
        let (cause, remedy) = advice::of(&why);
        (advice::in_file(&cause), advice::in_file(&remedy), why.exit_code())
    };
    let daemon = Daemon::new(settings).map_err(failed)?;
    let is_optional = arguments.config.is_none();
    let mut daemon = daemon.reloading(arguments.file().to_owned(), is_optional, change);
    log.write(&daemon.started());
    if let Some(metrics) = metrics {
        metrics.serve()?;
    }
    if let Some(recording) = recording {
        recording.begin()?;
    }
    daemon.run(Wait::new(signals), |line| log.write(&line)).map_err(failed)?;
    Ok(())
}

/// The service's files are the service's.
fn dry(settings: &mut Settings) {
    settings.dry_run = true;
    (settings.state_folder, settings.metrics, settings.records) = (None, None, None);
    let services = Path::new(configuration::STATUS_SOCKET);
    settings.status_socket = settings.status_socket.take().filter(|path| path != services);
}

fn as_it_is(_: &mut Settings) {}

/// The settings, and whether there is a file. Without one, and none named, they
/// are the defaults.
fn settings(arguments: &Arguments) -> Result<(Settings, bool), Failure> {
    let loaded = configuration::load_or_default(arguments.file(), arguments.config.is_none());
    let (mut settings, was_read) = loaded.map_err(|why| {
        let remedy = "parachrond --check, after a change".to_owned();
        (why.to_string(), remedy, program::USAGE)
    })?;
    if arguments.is_dry_run {
        dry(&mut settings);
    }
    Ok((settings, was_read))
}
