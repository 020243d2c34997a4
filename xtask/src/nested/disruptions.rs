//! The guest whose life is disturbed: stopped, saved and put back, its clocks
//! set and steered, while `parachron` looks on. QEMU does to it what a host
//! does to its guests (`stop`, `snapshot-load`); what it says comes over
//! serial lines, stamped with this machine's time, which nobody touches.

mod chrony;
mod facts;
mod in_time;
mod keep;
mod line;
mod session;
mod ticks;
mod watch;

use std::path::PathBuf;

use crate::nested::checks::Check;
use crate::nested::disruptions::keep::Server;
use crate::nested::disruptions::session::Session;
use crate::nested::prepare::{Ground, Kind};
use crate::nested::{Phases, Stop, prepare};

pub(crate) use facts::Fact;
pub(crate) use ticks::CLOCKS;

/// Its clock may be set (`e2e/src/bin/guest-clock.rs`).
const THROWN_AWAY: &str = "parachron.thrown_away";

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What must hold.
    pub(crate) checks: Vec<Check>,
    /// What each disruption does to the clocks.
    pub(crate) facts: Vec<Fact>,
}

impl Findings {
    /// What could not be gone through is a check that does not hold.
    fn cut_short(&mut self, what: &str, done: Result<(), String>) {
        if let Err(found) = done {
            let what = format!("{what}: goes through all of its disruptions");
            self.checks.push(Check { what, found, holds: false });
        }
    }
}

/// Boots it, and disturbs it in every way.
pub(super) fn run(ground: &Ground, limit_s: u32, phases: &mut Phases) -> Result<Findings, Stop> {
    let chrony = chrony::programs();
    let kind = Kind {
        name: "disruptions",
        programs: &chrony.iter().flatten().map(PathBuf::as_path).collect::<Vec<_>>(),
        modules: &["virtio_pci", "virtio_net"],
        commands: &[],
        parameters: THROWN_AWAY,
        limit_s,
    };
    let guest = prepare::guest(ground, &kind)?;
    let folder = ground.folder.join("disruptions");
    let mut session =
        phases.time("disruptions: boot", || Session::boot(&folder, guest)).map_err(Stop::Failed)?;
    let mut findings = Findings::default();
    session
        .ask("tell", "guest-clock tell 20 >$TELL 2>/tmp/guest-clock.err &")
        .map_err(Stop::Failed)?;
    let done = phases.time("disruptions: watch", || watch::run(&mut session, &mut findings));
    findings.cut_short("watch", done);
    findings.checks.extend(facts::checks(&findings.facts));
    let done = phases.time("disruptions: keep", || {
        let server = Server::start(&ground.programs.ntp_server)?;
        keep::run(&mut session, &server, &mut findings.checks)?;
        match &chrony {
            Some(_) => chrony::run(&mut session, &server, &mut findings.checks),
            // CI counts such a line.
            None => {
                let remedy = "apt-get install chrony";
                println!("nested: SKIPPED: keep beside chronyd: not installed; try: {remedy}");
                Ok(())
            }
        }
    });
    findings.cut_short("keep", done);
    session.end().map_err(Stop::Failed)?;
    Ok(findings)
}
