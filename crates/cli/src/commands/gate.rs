//! `parachron gate`: no wrong time stamp after a restore.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use daemon::gate::socket::{self, GateRequest, ask};
use daemon::gate::{GroupTree, SEARCH_EVERY, give_right, is_frozen, list_file, thaw_listed};
use daemon::status::{DaemonStatus, GateState, GateStatus};
use daemon::{configuration, status_socket};

use crate::error::CliError;
use crate::output;

/// Freeze programs while the clock may be wrong after a snapshot was restored.
///
/// `parachrond` does so for the control groups that its key `gate` lists. These commands
/// are for the hooks of a snapshot tool, and for machines without systemd.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: GateTask,
}

#[derive(Debug, clap::Subcommand)]
enum GateTask {
    /// Freeze the gate's control groups, before a snapshot; return once they are frozen
    Freeze {
        #[command(flatten)]
        socket: GateSocketOption,
    },
    /// Thaw the gate's control groups once the clock is measured and correct; return once they run
    Thaw {
        #[command(flatten)]
        socket: GateSocketOption,

        /// Thaw at once the control groups that a killed daemon left frozen
        #[arg(long)]
        force: bool,
    },
    /// Run a command in a control group of the gate
    Exec {
        /// The control group, below the cgroup mount; created if it is missing
        #[arg(long, value_name = "PATH", default_value = "/parachron-gate")]
        cgroup: PathBuf,

        /// Socket of the daemon, its key `status-socket`
        #[arg(long, value_name = "PATH", default_value = configuration::STATUS_SOCKET)]
        status_socket: PathBuf,

        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, clap::Args)]
struct GateSocketOption {
    /// Socket of the daemon, its key `gate-socket`
    #[arg(long, value_name = "PATH", default_value = socket::PATH)]
    socket: PathBuf,
}

/// The daemon waits a second for processes to freeze.
const FREEZE_LIMIT: Duration = Duration::from_secs(5);

/// Beyond twice the longest `gate-limit`.
const THAW_LIMIT: Duration = Duration::from_secs(1300);

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    match &args.task {
        GateTask::Freeze { socket } => request(&socket.socket, GateRequest::Freeze, FREEZE_LIMIT),
        GateTask::Thaw { socket, force: false } => {
            request(&socket.socket, GateRequest::Thaw, THAW_LIMIT)
        }
        GateTask::Thaw { socket, force: true } => thaw(&socket.socket),
        GateTask::Exec { cgroup, status_socket, command } => exec(cgroup, status_socket, command),
    }
}

fn request(socket: &Path, request: GateRequest, limit: Duration) -> Result<ExitCode, CliError> {
    let path = socket.display();
    let reply = ask(socket, request, limit).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => CliError::Failed {
            cause: format!("no daemon with a gate is running: nothing listens at {path}"),
            remedy: "set `gate` in /etc/parachron/parachrond.toml, then run `systemctl restart \
                     parachrond`"
                .into(),
        },
        ErrorKind::PermissionDenied => failed(format!("{path}: {error}"), "run it as root"),
        _ => failed(format!("{path}: {error}"), "run `systemctl status parachrond`"),
    })?;
    match reply.strip_prefix("error: ") {
        Some(why) => Err(failed(why.into(), "run `parachron status`")),
        None if reply.is_empty() => Err(failed(
            "the daemon ended without a reply".into(),
            "run `systemctl status parachrond`",
        )),
        None => {
            output::text(&format!("{reply}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn failed(cause: String, remedy: &str) -> CliError {
    CliError::Failed { cause, remedy: remedy.into() }
}

fn thaw(socket: &Path) -> Result<ExitCode, CliError> {
    let tree = GroupTree::of_this_process().map_err(|why| failed(why.to_string(), NO_CGROUP))?;
    let list = list_file(socket);
    let thawed = thaw_listed(&tree, &list)
        .map_err(|why| failed(format!("{}: {why}", list.display()), "run it as root"))?;
    output::text(&format!("{} thawed\n", output::number_of(thawed as u64, "control group")))?;
    Ok(ExitCode::SUCCESS)
}

const NO_CGROUP: &str = "run it on the machine itself, with cgroup v2 mounted";

/// A new group with the daemon's right to freeze it: the group of its socket's folder. One
/// that exists has it by the service's start, where the configuration lists it. What is new of the
/// path, the innermost first.
fn create<'a>(group: &'a Path, status_socket: &Path) -> std::io::Result<Vec<&'a Path>> {
    let created: Vec<_> = group.ancestors().take_while(|path| !path.exists()).collect();
    if created.is_empty() {
        return Ok(created);
    }
    // Without a folder there is no daemon: that is reported next.
    let folder = status_socket.parent().map(fs::metadata);
    let given = fs::create_dir_all(group).and_then(|()| match folder {
        Some(Ok(folder)) => give_right(group, folder.gid()),
        _ => Ok(()),
    });
    given.inspect_err(|_| remove(&created)).map(|()| created)
}

/// Removes what was created, unless another command is in it by now.
fn remove(created: &[&Path]) {
    let _ = created.iter().try_for_each(fs::remove_dir);
}

/// How often the daemon is asked whether its gate is open, and whether it has found a group.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the daemon freezes the group, once a command may enter it: a group that is newer than
/// a freeze is not frozen by it, so a command would begin in it while the clock is wrong.
fn await_gate(group: &Path, status_socket: &Path) -> bool {
    // The daemon searches for a new group only so often, and does not reply while it starts again.
    let soon = || Instant::now() + 2 * SEARCH_EVERY;
    let mut until = soon();
    loop {
        let gate = gate_status(status_socket).filter(|gate| {
            let mut groups = gate.groups.iter();
            groups.any(|gated| group.starts_with(gated))
        });
        match gate {
            Some(gate) if gate.state != GateState::Closed => return true,
            Some(_) if is_frozen(group) == Some(true) => return true,
            Some(_) => until = soon(),
            None if Instant::now() >= until => return false,
            None => {}
        }
        std::thread::sleep(LOOK);
    }
}

fn gate_status(status_socket: &Path) -> Option<GateStatus> {
    let reply = status_socket::ask(status_socket, None).ok()?;
    serde_json::from_str::<DaemonStatus>(&reply).ok()?.gate
}

/// This process becomes the command, in the group.
fn exec(
    cgroup: &Path,
    status_socket: &Path,
    command: &[std::ffi::OsString],
) -> Result<ExitCode, CliError> {
    let tree = GroupTree::of_this_process().map_err(|why| failed(why.to_string(), NO_CGROUP))?;
    let group = tree.mount().join(cgroup.strip_prefix("/").unwrap_or(cgroup));
    let shown = group.display();
    if !tree.contains(&group) {
        return Err(failed(format!("{shown} is not a control group"), "use --cgroup /NAME"));
    }
    let created = create(&group, status_socket)
        .map_err(|why| failed(format!("cannot create {shown}: {why}"), "run it as root"))?;
    if !await_gate(&group, status_socket) {
        remove(&created);
        let entry = cgroup.display();
        return Err(failed(
            format!("no daemon at {} freezes {shown}", status_socket.display()),
            &format!(
                "set gate = [\"{entry}\"] in /etc/parachron/parachrond.toml, then run \
                 `systemctl restart parachrond`"
            ),
        ));
    }
    // In a closed gate this process stops here, and the command begins with a right clock.
    let procs = fs::OpenOptions::new().write(true).open(group.join("cgroup.procs"));
    procs
        .and_then(|mut procs| procs.write_all(b"0"))
        .map_err(|why| failed(format!("cannot enter {shown}: {why}"), "run it as root"))?;
    let [program, arguments @ ..] = command else {
        return Err(failed("no command".into(), "name one after --"));
    };
    let why = Command::new(program).args(arguments).exec();
    Err(failed(format!("{}: {why}", program.display()), "check the path of the command"))
}
