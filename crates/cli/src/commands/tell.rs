//! `parachron tell`: the time, from a host to its guests.

pub(crate) mod line;
mod watch;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use facts::steering::TimeKeeperKind;
use instruments::duration;
use line::{Fate, TellLine};
use linux::clock::LinuxClock;
use sources::tell::{Address, HostState, TellFailure, TellOutcome};
use sources::wire::hosttime::Reason;
use watch::Watch;

use crate::error::{COULD_NOT, CliError};
use crate::output::{self, LineFormat};

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    args.check()?;
    if args.watch {
        return Watch::new(args).run();
    }
    let all: Vec<_> = args.guests.iter().map(|guest| (guest, args.reason)).collect();
    let mut all_told = true;
    for some in all.chunks(AT_ONCE) {
        for line in args.tell(some, args.host()?) {
            args.print(&line)?;
            all_told &= line.fate() == Fate::Told;
        }
    }
    Ok(if all_told { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}

// The options, and what each round does by them.

/// Send guests the time of their host
///
/// For a hook that restores, resumes or receives a guest, and with --watch as a
/// service of the host. Guests listen with `parachrond` (host-vsock, host-port)
/// and decide whether to believe it; qemu-guest-agent sets the clock of its guest
/// if that is off. A guest is
///
///   vsock:CID     AF_VSOCK (QEMU, libvirt); add :PORT if it is not 123
///   unix:PATH     the vsock socket of Firecracker or cloud-hypervisor; the same
///   port:PATH     the socket at the host's end of a virtio-serial port
///   agent:PATH    the socket of qemu-guest-agent
///
/// All receive it at the same time. Exit code 2: a clock was not set.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The guests
    #[arg(required = true, value_name = "GUEST")]
    guests: Vec<Address>,

    /// What has just happened to the guests
    #[arg(long, value_name = "REASON", default_value = "periodic", value_parser = reason())]
    reason: Reason,

    /// Error bound of this host's clock, instead of the kernel's, which the time daemon sets
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    error: Option<Duration>,

    /// State that the time servers of this host smear leap seconds
    #[arg(long)]
    smeared: bool,

    /// Give up on a guest after this, 10ms to 60s; with --watch after at most 2s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = timeout)]
    timeout: Duration,

    /// Run until Ctrl-C: send the time after each suspend of this host, at the interval of --every,
    /// and to each guest that begins to listen
    #[arg(short, long)]
    watch: bool,

    /// Interval of --watch, 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = every)]
    every: Duration,

    /// Print text, or json with one object per line
    #[arg(long, value_enum, default_value_t = LineFormat::Text)]
    format: LineFormat,
}

/// Why a guest gets the time.
const REASONS: [(&str, Reason, &str); 5] = [
    ("periodic", Reason::Periodic, "Nothing has happened"),
    ("resumed", Reason::Resumed, "It was paused"),
    ("restored", Reason::Restored, "It was restored from a snapshot"),
    ("migrated", Reason::Migrated, "It came from another host"),
    ("cold-boot", Reason::ColdBoot, "It was started"),
];

fn reason() -> impl TypedValueParser<Value = Reason> {
    let value = |(name, _, help): (&'static str, _, _)| PossibleValue::new(name).help(help);
    PossibleValuesParser::new(REASONS.map(value)).try_map(|given| {
        let found = REASONS.iter().find(|(name, ..)| *name == given);
        found.map(|(_, reason, _)| *reason).ok_or("not a reason")
    })
}

/// How often --watch looks.
const LOOK: Duration = Duration::from_secs(1);
/// Guests told at the same time: each is a thread and a descriptor.
const AT_ONCE: usize = 256;
/// For as long one that hangs may hold up what --watch looks for.
const HELD_UP: Duration = Duration::from_secs(2);
/// It reads and writes a few bytes.
const STACK_BYTES: usize = 256 * 1024;

fn timeout(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_millis(10)..=Duration::from_secs(60), "10ms to 60s")
}

fn every(text: &str) -> Result<Duration, String> {
    duration::within(text, LOOK..=Duration::from_secs(86_400), "1s to 24h")
}

impl Args {
    /// What this host knows of the time.
    fn host(&self) -> Result<HostState, CliError> {
        let host = HostState::read(self.error).map_err(|why| CliError::Failed {
            cause: why.to_string(),
            remedy: "run `systemctl start chrony`, or pass --error TIME if you know how far the \
                     clock may be off"
                .into(),
        })?;
        Ok(if self.smeared { host.smeared() } else { host })
    }

    /// # Errors
    /// The kernel's bound is one that states nothing, and nobody vouches for another.
    fn check(&self) -> Result<(), CliError> {
        let has_timesyncd = inspect::live::time_keepers().is_known_and(|found| {
            let mut running = found.iter().filter(|keeper| keeper.running);
            running.any(|keeper| keeper.kind == TimeKeeperKind::SystemdTimesyncd)
        });
        if self.error.is_none() && has_timesyncd {
            return Err(CliError::Failed {
                cause: "systemd-timesyncd keeps this host's clock, and does not state how far it \
                        may be off"
                    .into(),
                remedy: "run chronyd instead (`apt-get install chrony`), or pass --error TIME if you know it".into(),
            });
        }
        Ok(())
    }

    /// Tells these, [`AT_ONCE`] at the most, at the same time.
    fn tell(&self, guests: &[(&Address, Reason)], host: HostState) -> Vec<TellLine> {
        let limit = if self.watch { self.timeout.min(HELD_UP) } else { self.timeout };
        let one = |guest: &Address, why: Reason| {
            let (at, begun) = (LinuxClock::Realtime.read_ns(), Instant::now());
            let told = sources::tell::tell(guest, host, why, limit);
            TellLine::new(at, guest, &told, begun.elapsed())
        };
        thread::scope(|scope| {
            let begin = |&(guest, why): &(_, _)| {
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, move || one(guest, why))
            };
            let threads: Vec<_> = guests.iter().map(begin).collect();
            let ended = threads.into_iter().zip(guests).map(|(thread, (guest, _))| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| crashed(guest)),
                Err(why) => {
                    failed(guest, TellFailure::Nonsense(format!("cannot start a thread: {why}")))
                }
            });
            ended.collect()
        })
    }

    fn print(&self, line: &TellLine) -> Result<(), CliError> {
        match self.format {
            LineFormat::Text => output::text(&line.text()),
            LineFormat::Json => output::text(&output::json_line(line)?),
        }
    }
}

fn failed(guest: &Address, why: TellFailure) -> TellLine {
    TellLine::new(
        LinuxClock::Realtime.read_ns(),
        guest,
        &Err::<TellOutcome, _>(why),
        Duration::ZERO,
    )
}

fn crashed(guest: &Address) -> TellLine {
    failed(
        guest,
        TellFailure::Nonsense("a thread of this program crashed: report this bug".to_owned()),
    )
}
