//! `fleet-map pair`: compares this machine's clock with its peers', and answers theirs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fleet_map::errormap::ProbeSample;
use fleet_map::pair::{
    self, Counts, ListedPeer, Networks, NodeClock, ProbeError, Prober, Responder, ResponderCounts,
};
use instruments::duration;
use linux::wait::{Signals, WaitUntil, Wake};

use crate::error::{CommandError, cannot_wait, note};
use crate::output;

/// A reply comes no later, or as late as the next probe.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A file of samples that has grown to this becomes FILE.1, in place of an earlier one.
const LARGEST: u64 = 64 << 20;

/// Compare this clock with those of peers, for `fleet-map map`.
///
/// Probes some peers of a list in turn, in NTP's format; each node probes others, and any NTP
/// server can be a peer. With --answer it also replies to the peers' requests, from the named
/// networks alone, and never as a time server. Changes no clock, and opens no port without
/// --answer. Ends with Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// This node's name in the map
    #[arg(long, value_name = "NAME")]
    name: String,

    /// List of all nodes: one name and HOST:PORT per line
    #[arg(long, value_name = "FILE", required_unless_present = "answer")]
    peers: Option<PathBuf>,

    /// Probe this many of them, 1 to 64
    #[arg(long, value_name = "COUNT", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    degree: u16,

    /// Probe each of them once per this time, 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = every)]
    every: Duration,

    /// Answer requests from these networks, such as 10.0.0.0/8,192.0.2.7
    #[arg(long, value_name = "NETWORKS")]
    answer: Option<Networks>,

    /// Address at which requests are answered
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9976",
        requires = "answer"
    )]
    listen: SocketAddr,

    /// Append the samples to this file as JSON lines; at 64 MiB it is renamed to FILE.1
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the newest sample of each peer, and counts, as metrics for node_exporter's
    /// textfile collector
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,

    /// Stop after this time, 1s to 1h
    #[arg(long, value_name = "TIME", value_parser = every)]
    duration: Option<Duration>,

    /// For tests: as if this clock were ahead by so many nanoseconds
    #[arg(long, value_name = "NS", hide = true, default_value_t = 0, allow_hyphen_values = true)]
    shift_ns: i64,
}

fn every(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=Duration::from_secs(3600), "1s to 1h")
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let all = args.peers.as_deref().map_or(Ok(Vec::new()), peers)?;
    let chosen = pair::choose(&args.name, &all, args.degree.into());
    let clock = NodeClock { shift_ns: args.shift_ns };
    let answers = match &args.answer {
        Some(networks) => respond(args.listen, networks.clone(), clock)?,
        None => Arc::default(),
    };
    if chosen.is_empty() && args.answer.is_none() {
        return Err(CommandError::Failed {
            cause: "the list of --peers names no other node".into(),
            remedy: "add other nodes to the file of --peers, or use --answer".into(),
        });
    }
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    let end = args.duration.map(|duration| Instant::now() + duration);
    let (peers, counts) = (BTreeMap::new(), Counts::default());
    let mut session = PairSession { args, clock, answers, peers, counts };
    // Each has its turn, evenly spread.
    let each = args.every / u32::try_from(chosen.len().max(1)).unwrap_or(u32::MAX);
    let mut next = Instant::now();
    for turn in 0_usize.. {
        if let Some(peer) = chosen.get(turn % chosen.len().max(1)) {
            session.ask(peer, TIMEOUT.min(each))?;
        }
        if turn % chosen.len().max(1) == 0 {
            session.expose()?;
        }
        // Turns that were missed, as by a pause, are not made up for.
        next = (next + each).max(Instant::now());
        let until = end.map_or(next, |end| end.min(next));
        let is_over = end.is_some_and(|end| end <= next);
        if wait.until(until).map_err(cannot_wait)? != Wake::Deadline || is_over {
            break;
        }
    }
    session.expose()?;
    if !chosen.is_empty() {
        let replied = session.peers.values().filter(|peer| peer.has_replied).count();
        note(&format!("{replied} of {} peers replied", chosen.len()));
    }
    Ok(ExitCode::SUCCESS)
}

fn peers(path: &Path) -> Result<Vec<ListedPeer>, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| pair::parse(&text)).map_err(|error| CommandError::Failed {
        cause: format!("cannot read the peers in {}: {error}", path.display()),
        remedy: "write one name and HOST:PORT per line".into(),
    })
}

fn respond(
    address: SocketAddr,
    networks: Networks,
    clock: NodeClock,
) -> Result<Arc<ResponderCounts>, CommandError> {
    let failed = |error: std::io::Error| CommandError::Failed {
        cause: format!("cannot answer at {address}: {error}"),
        remedy: "choose another address: --listen ADDRESS:PORT".into(),
    };
    let responder = Responder::bind(address, networks, clock).map_err(failed)?;
    let answers = responder.answers();
    let thread = std::thread::Builder::new().name("responder".into());
    thread.spawn(move || responder.run()).map_err(failed)?;
    Ok(answers)
}

struct PairSession<'a> {
    args: &'a Args,
    clock: NodeClock,
    answers: Arc<ResponderCounts>,
    peers: BTreeMap<String, PeerState>,
    counts: Counts,
}

/// What is known of a peer.
#[derive(Default)]
struct PeerState {
    prober: Prober,
    newest: Option<ProbeSample>,
    has_replied: bool,
    /// It demanded not to be asked, or not now, until then.
    silent_until: Option<Instant>,
    /// Its silence was reported.
    is_lost: bool,
}

impl PairSession<'_> {
    fn ask(&mut self, peer: &ListedPeer, timeout: Duration) -> Result<(), CommandError> {
        let state = self.peers.entry(peer.name.clone()).or_default();
        if state.silent_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        let address = peer
            .address
            .to_socket_addrs()
            .and_then(|mut all| all.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into()));
        let times = address
            .map_err(ProbeError::from)
            .and_then(|address| state.prober.probe(address, timeout, self.clock));
        let probe = match times {
            Ok(times) => times.named(&self.args.name, &peer.name),
            Err(error) => {
                self.counts.lost += 1;
                if let ProbeError::Kiss(code) = &error {
                    // As of RFC 5905, section 7.4; DENY and RSTR hold for good.
                    let pause = if code == b"RATE" { 64 } else { 100 * 365 * 86_400 };
                    state.silent_until = Some(Instant::now() + Duration::from_secs(pause));
                    note(&format!("{}: {error}; paused for {pause} s", peer.name));
                } else if !std::mem::replace(&mut state.is_lost, true) {
                    note(&format!(
                        "{} at {} did not reply: {error}; later losses are only counted",
                        peer.name, peer.address
                    ));
                }
                return Ok(());
            }
        };
        self.counts.replied += 1;
        state.has_replied = true;
        if let Some(path) = &self.args.out {
            append(path, &output::ended(serde_json::to_string(&probe))?)?;
        } else if self.args.textfile.is_none() {
            output::text(&output::ended(serde_json::to_string(&probe))?)?;
        }
        state.newest = probe.sample().ok().or(state.newest.take());
        Ok(())
    }

    fn expose(&mut self) -> Result<(), CommandError> {
        let Some(path) = &self.args.textfile else { return Ok(()) };
        self.counts.answered = self.answers.answered.load(Relaxed);
        self.counts.refused = self.answers.refused.load(Relaxed);
        let newest = self.peers.values().filter_map(|peer| peer.newest.as_ref());
        output::file(path, pair::textfile(newest, self.counts))
    }
}

/// In one write, so that a line is whole or not there.
fn append(path: &Path, line: &str) -> Result<(), CommandError> {
    let written = || {
        let open = || OpenOptions::new().append(true).create(true).open(path);
        let mut file: File = open()?;
        if file.metadata()?.len() > LARGEST {
            let mut earlier = path.as_os_str().to_owned();
            earlier.push(".1");
            std::fs::rename(path, earlier)?;
            file = open()?;
        }
        file.write_all(line.as_bytes())
    };
    written().map_err(|error| CommandError::Write { path: path.into(), error })
}
