//! What each event does to the pages, the kernel's and ours.

mod causes;
mod events;
mod subject;

use std::time::{Duration, Instant};

use host::Kind;
use pvclock::kvm_clock::{Flags, TimeInfo};

use crate::bench::{Bench, Provider};
use crate::pages::{reenter_all, step_ns};
use crate::results::{Check, Findings, Update, Verdict};
use crate::run::Found;
use crate::settings::{LabError, Progress};
use causes::{Caused, Done};
use events::{EVENTS, Event, Growth, STEP_NS, STEP_PPM};
use subject::Subject;

/// Kernels write the other vCPUs' pages up to this much after one vCPU's
/// (KVMCLOCK_UPDATE_DELAY, arch/x86/kvm/x86.c), and a work queue may be late.
const SOON: Duration = Duration::from_millis(250);
/// No pending update takes this long.
const AT_LATEST: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(10);

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let mut rows = Vec::new();
    let mut checks = Vec::new();
    let providers = [Provider::Kernel, Provider::Own(Kind::Kvm)];
    let steps = (providers.len() * EVENTS.len()) as f64;
    for (round, provider) in providers.into_iter().enumerate() {
        let mut subject = Subject::start(bench, provider)?;
        for (index, event) in EVENTS.iter().enumerate() {
            let done = (round * EVENTS.len() + index) as f64 / steps;
            progress.step(&format!("{}: {}", provider.label(), event.name), done);
            checks.push(subject.show(event, &mut rows)?);
        }
    }
    Ok((Findings::Updates(rows), checks))
}

impl Subject {
    /// Causes an event, and adds a row for each vCPU.
    fn show(&mut self, event: &Event, rows: &mut Vec<Update>) -> Result<Check, LabError> {
        if event.may_leave_pages() {
            // Pending updates of earlier events must not count as this one's.
            std::thread::sleep(SOON);
            reenter_all(&self.machine)?;
        }
        let before = self.infos()?;
        let caused = match self.provider {
            Provider::Kernel => (event.kernel)(self)?,
            Provider::Own(_) => (event.own)(self)?,
        };
        let (after, verdict, note, not_caused) = match caused {
            Caused::Not(why) => {
                (before.clone(), Verdict::NotMeasured(why.clone()), None, Some(why))
            }
            Caused::Done(done) => {
                let after = self.wait(event, &before)?;
                let verdict = done.judge(event, &before, &after);
                (after, verdict, done.note, None)
            }
        };
        let changes: Vec<_> = before.iter().zip(&after).collect();
        let check = Check {
            name: format!("{}: {}", self.provider.label(), event.name),
            expected: event.expected(),
            found: describe(&changes, note.as_deref()),
            verdict,
        };
        rows.extend(changes.iter().enumerate().map(|(vcpu, (old, new))| Update {
            event: event.name.to_owned(),
            backend: self.provider.backend(),
            vcpu,
            version: (old.version, new.version),
            step_ns: step_ns(old, new),
            flags: (old.flags.0, new.flags.0),
            not_caused: not_caused.clone(),
        }));
        Ok(check)
    }

    /// Enters the guest again until the pages that must be written are, and as
    /// long as others might be.
    fn wait(&self, event: &Event, before: &[TimeInfo]) -> Result<Vec<TimeInfo>, LabError> {
        let started = Instant::now();
        loop {
            reenter_all(&self.machine)?;
            let after = self.infos()?;
            let waited = started.elapsed();
            let late = before
                .iter()
                .zip(&after)
                .any(|(old, new)| event.growth(old) == Growth::Grows && new.version == old.version);
            if waited > AT_LATEST || !late && (waited > SOON || !event.may_leave_pages()) {
                return Ok(after);
            }
            std::thread::sleep(NAP);
        }
    }
}

impl Done {
    fn judge(&self, event: &Event, before: &[TimeInfo], after: &[TimeInfo]) -> Verdict {
        Verdict::of(
            self.missing.is_none()
                && before.iter().zip(after).enumerate().all(|(vcpu, (old, new))| {
                    let grew = new.version != old.version;
                    let growth_holds = match event.growth(old) {
                        Growth::Grows => grew,
                        Growth::Stays => !grew,
                        Growth::Either => true,
                    };
                    let stable = self.stable.unwrap_or(old.flags.contains(Flags::TSC_STABLE));
                    let flags_hold = new.flags.contains(Flags::TSC_STABLE) == stable
                        && new.flags.contains(Flags::GUEST_STOPPED) == event.stops;
                    let more = step_ns(old, new) - self.step_ns.get(vcpu).copied().unwrap_or(0);
                    let bound = step_bound(old, new);
                    growth_holds && flags_hold && (-bound - self.less_ns..=bound).contains(&more)
                }),
        )
    }
}

/// By how much a step may differ from the one that was caused.
fn step_bound(old: &TimeInfo, new: &TimeInfo) -> i64 {
    let cycles = new.tsc_timestamp.wrapping_sub(old.tsc_timestamp).cast_signed().unsigned_abs();
    let since = new.scale.nanos(cycles).map_or(0, |nanos| nanos.0.cast_signed());
    STEP_NS + since / 1_000_000 * STEP_PPM
}

fn describe(changes: &[(&TimeInfo, &TimeInfo)], note: Option<&str>) -> String {
    let pages = changes.iter().enumerate().map(|(vcpu, (old, new))| {
        format!(
            "vCPU {vcpu}: version {} to {}, flags {} to {}, step {} ns",
            old.version,
            new.version,
            old.flags.0,
            new.flags.0,
            step_ns(old, new)
        )
    });
    pages.chain(note.map(str::to_owned)).collect::<Vec<_>>().join("; ")
}
