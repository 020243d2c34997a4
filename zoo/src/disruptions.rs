//! A guest that is paused, saved and restored, and whose clocks are set and
//! steered, while `parachron` watches or corrects them. QEMU does what a host
//! does to its guests (`stop`, `snapshot-load`). The guest's output comes over
//! serial lines and is stamped with this machine's time, which never changes
//! by a step.

mod channel;
mod chrony;
mod effects;
mod keep;
mod retry;
mod session;
mod ticks;
mod watch;

use crate::artifacts::{Artifacts, GuestSpec};
use crate::checks::Check;
use crate::disruptions::keep::Server;
use crate::disruptions::session::Session;
use crate::outcome::{Failure, Phases, Unavailable};

pub(crate) use effects::Effect;
pub(crate) use ticks::CLOCKS;

/// Allows its clock to be set (`zoo/src/bin/guest-clock.rs`).
const DISPOSABLE: &str = "parachron.disposable";

/// The results of this part.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The checks.
    pub(crate) checks: Vec<Check>,
    /// How each disruption changes the clocks.
    pub(crate) effects: Vec<Effect>,
    /// What could not run on this machine.
    pub(crate) skipped: Vec<Unavailable>,
}

impl Findings {
    /// A sequence that stopped with an error is a failed check.
    fn finish(&mut self, what: &str, done: Result<(), String>) {
        if let Err(found) = done {
            let what = format!("{what}: completes all disruptions");
            self.checks.push(Check::new(what, found, false));
        }
    }
}

/// Boots the guest, and causes every disruption.
pub(super) fn run(
    artifacts: &Artifacts,
    limit_s: u32,
    phases: &mut Phases,
) -> Result<Findings, Failure> {
    let chrony = chrony::programs();
    let spec = GuestSpec {
        name: "disruptions",
        programs: chrony.as_deref().unwrap_or_default(),
        modules: &["virtio_pci", "virtio_net"],
        commands: &[],
        parameters: DISPOSABLE,
        limit_s,
    };
    let guest = artifacts.guest(&spec)?;
    let folder = artifacts.folder.join("disruptions");
    let mut session = phases.time("disruptions: boot", || Session::boot(&folder, guest))?;
    let mut findings = Findings::default();
    session.execute("print", "guest-clock print 20 >$OUTPUT 2>/tmp/guest-clock.err &")?;
    let done = phases.time("disruptions: watch", || watch::run(&mut session, &mut findings));
    findings.finish("watch", done);
    findings.checks.extend(effects::checks(&findings.effects));
    let done = phases.time("disruptions: keep", || {
        let server = Server::start(&artifacts.programs.join("ntp-server"))?;
        keep::run(&mut session, &server, &mut findings.checks)?;
        match &chrony {
            Some(_) => chrony::run(&mut session, &server, &mut findings.checks),
            None => {
                let why = "keep with chronyd: chronyd or chronyc is not installed";
                findings.skipped.push(Unavailable::new(why, "apt-get install chrony"));
                Ok(())
            }
        }
    });
    findings.finish("keep", done);
    session.end()?;
    Ok(findings)
}
