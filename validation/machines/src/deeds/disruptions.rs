//! A guest that is paused, saved and restored, and whose clocks are set and
//! steered, while `parachron` watches or corrects them. QEMU does what a host
//! does to its guests (`stop`, `snapshot-load`). The guest's output comes over
//! serial lines and is stamped with this machine's time, which never changes
//! by a step.

pub(super) mod channel;
pub(super) mod chrony;
mod effects;
mod keep;
mod session;
pub(super) mod ticks;
mod watch;

use super::server::Server;
use super::{Done, Place};
use crate::checks::Check;
use crate::outcome::{Failure, Unavailable};
use crate::tools;

use effects::Effect;
use session::Session;

/// The results.
#[derive(Debug, Default)]
struct Findings {
    checks: Vec<Check>,
    /// How each disruption changes the clocks.
    effects: Vec<Effect>,
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
pub(super) fn run(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let mut session = Session::boot(place.folder, place.start)?;
    let mut findings = Findings::default();
    session.execute("print", "guest-clock print 20 >$OUTPUT 2>/tmp/guest-clock.err &")?;
    let watched = watch::run(&mut session, &mut findings);
    findings.finish("watch", watched);
    findings.checks.extend(effects::checks(&findings.effects));
    let kept = (|| {
        let program = place.workshop.programs.join("ntp-server");
        let servers = [Server::start(&program)?, Server::start(&program)?];
        keep::run(&mut session, &servers, &mut findings.checks)?;
        if place.row.programs.iter().all(|name| tools::find_program(name).is_some()) {
            return chrony::run(&mut session, &servers[0], &mut findings.checks);
        }
        let why = "keep with chronyd: chronyd or chronyc is not installed";
        done.skipped.push(Unavailable::new(why, "install it: apt-get install chrony"));
        Ok(())
    })();
    findings.finish("keep", kept);
    done.checks.extend(findings.checks);
    Ok(session.end()?)
}
