//! What each event does to the pages, the kernel's and ours.

mod causes;
mod events;

use std::time::{Duration, Instant};

use causes::{Caused, EventResult, Stability};
use events::{EVENTS, Growth, STEP_PPM, UpdateEvent};
use facts::kernel::version::KernelVersion;
use host::ClockProvider;
use pvclock::Nanos;
use pvclock::kvm_clock::{Flags, TimeInfo};
use serde::Serialize;
use vmm::Machine;

use crate::bench::{LabBench, Provider, boot_guest};
use crate::pages::{reenter_all, step_ns, time_info};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable, Verdict};
use crate::sample::not_run;
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::{TscOffsets, why_per_vcpu};

/// Kernels write the other vCPUs' pages up to this much after one vCPU's
/// (KVMCLOCK_UPDATE_DELAY, arch/x86/kvm/x86.c), and a work queue may be late.
const SOON: Duration = Duration::from_millis(250);
/// No pending update takes this long.
const AT_LATEST: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(10);

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let mut rows = Vec::new();
    let mut checks = Vec::new();
    let providers = [Provider::Kernel, Provider::Own(ClockProvider::Kvm)];
    let steps = (providers.len() * EVENTS.len()) as f64;
    for (round, provider) in providers.into_iter().enumerate() {
        let mut subject = None;
        for (index, event) in EVENTS.iter().enumerate() {
            let done = (round * EVENTS.len() + index) as f64 / steps;
            let name = format!("{}: {}", provider.label(), event.name);
            progress.step(&name, done);
            match cause_event(&mut subject, bench, provider, event, &mut rows) {
                Ok(check) => checks.push(check),
                Err(error) => {
                    checks.push(not_run(name, event.expected(provider), &error));
                    if subject.take().is_none() {
                        // No machine: the other events would wait for one as well.
                        break;
                    }
                }
            }
        }
    }
    Ok((table(&rows), checks))
}

/// One event and what it did to one vCPU's page.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct UpdateRow {
    event: &'static str,
    clock_by: &'static str,
    vcpu: usize,
    /// Before and after; as the others only where the event was caused.
    version: Option<[u32; 2]>,
    step_ns: Option<i64>,
    flags: Option<[u8; 2]>,
    /// Why the event could not be caused here.
    not_caused: Option<String>,
}

fn table(rows: &[UpdateRow]) -> ResultTable {
    use ColumnForm::{Count, Name, Nanos, Words};
    let columns = [
        ("event", "event", "", Words),
        ("clock_by", "clock by", "", Name),
        ("vcpu", "vCPU", "", Count),
        ("version", "version", "", Count),
        ("step_ns", "step", "", Nanos),
        ("flags", "flags", "", Count),
    ];
    ResultTable::new("Updates: what each event does to the clock page", &columns, rows).note(
        "version: +2 for each write. step: the new page's time minus the old page's, at the new \
         page's TSC. flags: 1 TSC_STABLE, 2 GUEST_STOPPED. –: not caused here; the checks say why.",
    )
}

/// Causes an event on the machine of those before it, or on a new one.
fn cause_event(
    subject: &mut Option<UpdateSubject>,
    bench: &LabBench<'_>,
    provider: Provider,
    event: &UpdateEvent,
    rows: &mut Vec<UpdateRow>,
) -> Result<Check, LabError> {
    match subject {
        Some(subject) => subject.show(event, rows),
        None => subject.insert(UpdateSubject::start(bench, provider)?).show(event, rows),
    }
}

impl UpdateSubject {
    /// Causes an event, and adds a row for each vCPU.
    fn show(&mut self, event: &UpdateEvent, rows: &mut Vec<UpdateRow>) -> Result<Check, LabError> {
        if event.may_leave_pages() {
            // Pending updates of earlier events must not count as this one's.
            std::thread::sleep(SOON);
            reenter_all(&self.machine)?;
        }
        let before = self.infos()?;
        let mut expected = event.expected(self.provider);
        let caused = match self.provider {
            Provider::Kernel | Provider::KernelHyperV => (event.kernel)(self)?,
            Provider::Own(_) => (event.own)(self)?,
        };
        let (after, verdict, note, not_caused) = match caused {
            Caused::Not(why) => {
                (before.clone(), Verdict::NotMeasured(why.clone()), None, Some(why))
            }
            Caused::Done(done) => {
                let after = self.wait(event, &before)?;
                self.stopped |= event.stops;
                expected = done.expected(expected);
                let reading_ns = events::reading_ns(self.provider);
                let short =
                    done.shortfall(event, &before, &after, self.has_master_clock, reading_ns);
                let verdict = match short {
                    None => Verdict::Passed,
                    Some(Shortfall::Page) => Verdict::Failed,
                    // A step is computed from a TSC that goes on.
                    Some(Shortfall::Step) => {
                        Verdict::Failed.excused(TscOffsets::probe()?.why_moved())
                    }
                };
                (after, verdict, done.note, None)
            }
        };
        let changes: Vec<_> = before.iter().zip(&after).collect();
        let check = Check {
            name: format!("{}: {}", self.provider.label(), event.name),
            expected,
            found: describe(&changes, note.as_deref()),
            verdict,
        };
        rows.extend(changes.iter().enumerate().map(|(vcpu, (old, new))| {
            let caused = not_caused.is_none();
            UpdateRow {
                event: event.name,
                clock_by: self.provider.label(),
                vcpu,
                version: caused.then_some([old.version, new.version]),
                step_ns: caused.then_some(step_ns(old, new)),
                flags: caused.then_some([old.flags.0, new.flags.0]),
                not_caused: not_caused.clone(),
            }
        }));
        Ok(check)
    }

    /// Enters the guest again until the pages that must be written are, and as
    /// long as others might be.
    fn wait(&self, event: &UpdateEvent, before: &[TimeInfo]) -> Result<Vec<TimeInfo>, LabError> {
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

/// What an event failed to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortfall {
    /// Whether a page was written, or its flags.
    Page,
    /// By how much its time stepped, and nothing else.
    Step,
}

impl EventResult {
    /// What the event must show, with the steps that were caused.
    fn expected(&self, event: String) -> String {
        let steps = self.step_ns.iter().enumerate().filter(|(_, step_ns)| **step_ns != 0);
        let steps = steps.map(|(vcpu, step_ns)| format!("vCPU {vcpu} by {step_ns} ns"));
        let steps: Vec<_> = steps.collect();
        if steps.is_empty() { event } else { format!("{event}, beside {}", steps.join(", ")) }
    }

    fn shortfall(
        &self,
        event: &UpdateEvent,
        before: &[TimeInfo],
        after: &[TimeInfo],
        has_master_clock: bool,
        reading_ns: i64,
    ) -> Option<Shortfall> {
        let pages = || before.iter().zip(after);
        let written = pages().all(|(old, new)| {
            let grew = new.version != old.version;
            let growth_holds = match event.growth(old) {
                Growth::Grows => grew,
                Growth::Stays => !grew,
                Growth::Either => true,
            };
            let [was, is] = [old, new].map(|page| page.flags.contains(Flags::TSC_STABLE));
            let stable_holds = match self.stable {
                Stability::Same => is == was,
                Stability::Possible(possible) => is == (possible && has_master_clock),
                Stability::Either => !is || has_master_clock,
            };
            let stopped_holds = new.flags.contains(Flags::GUEST_STOPPED) == event.stops;
            growth_holds && stable_holds && stopped_holds
        });
        if self.missing.is_some() || !written {
            return Some(Shortfall::Page);
        }
        let stepped = pages().enumerate().all(|(vcpu, (old, new))| {
            let more = step_ns(old, new) - self.step_ns.get(vcpu).copied().unwrap_or(0);
            let bound = step_bound(old, new, reading_ns);
            (-bound - self.less_ns..=bound).contains(&more)
        });
        (!stepped).then_some(Shortfall::Step)
    }
}

/// By how much a step may differ from the one that was caused.
fn step_bound(old: &TimeInfo, new: &TimeInfo, reading_ns: i64) -> i64 {
    let cycles = new.tsc_timestamp.wrapping_sub(old.tsc_timestamp).cast_signed().unsigned_abs();
    let since = new.scale.nanos(cycles).map_or(0, |nanos| nanos.0.cast_signed());
    reading_ns + since / 1_000_000 * STEP_PPM
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

// A machine whose pages are compared before and after events.

/// The period of kernels before 6.19 (KVMCLOCK_SYNC_PERIOD).
const SYNC_PERIOD: Nanos = Nanos(300_000_000_000);

/// A machine and its pages.
struct UpdateSubject {
    machine: Machine,
    provider: Provider,
    /// Physical CPUs we may use.
    cpus: Vec<u32>,
    /// Whether this host makes a master clock at all.
    has_master_clock: bool,
    /// Whose KVM it is.
    kernel: Option<KernelVersion>,
    /// An event has set GUEST_STOPPED, and no guest has taken it.
    stopped: bool,
}

impl UpdateSubject {
    fn start(bench: &LabBench<'_>, provider: Provider) -> Result<Self, LabError> {
        let cpus = linux::cpus::allowed().unwrap_or_default();
        let mut settings = bench.machine(provider, bench.settings.vcpus);
        settings.affinity.clone_from(&cpus);
        if let vmm::ClockBackend::Own(provider) = &mut settings.backend {
            provider.sync_period = Some(SYNC_PERIOD);
        }
        let machine = boot_guest(&settings)?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = KernelVersion::parse(&release);
        let (has_master_clock, stopped) = (false, false);
        let mut subject = Self { machine, provider, cpus, has_master_clock, kernel, stopped };
        crate::pages::reenter_all(&subject.machine)?;
        subject.has_master_clock = if provider.is_own() {
            why_per_vcpu(&subject.machine)?.is_none()
        } else {
            subject.is_stable()?
        };
        Ok(subject)
    }

    fn infos(&self) -> Result<Vec<TimeInfo>, LabError> {
        (0..self.machine.vcpus()).map(|vcpu| time_info(self.machine.ram(), vcpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvclock::{Hertz, Nanos, Scale};

    const TSC: u64 = 1_000_000_000;

    fn page(version: u32, system_time: u64, flags: u8) -> TimeInfo {
        let scale = Scale::from_hertz(Hertz(TSC)).unwrap();
        let flags = Flags(flags);
        TimeInfo { version, tsc_timestamp: TSC, system_time: Nanos(system_time), scale, flags }
    }

    #[test]
    fn a_wrong_page_is_told_from_a_wrong_step() {
        let event = &EVENTS[0];
        assert_eq!(event.pages, events::PageSet::All);
        let short = |after| {
            EventResult::default().shortfall(event, &[page(2, 0, 1)], &[after], true, 10_000)
        };
        assert_eq!(short(page(4, 10_000, 1)), None);
        assert_eq!(short(page(4, 10_001, 1)), Some(Shortfall::Step));
        for wrong in [page(2, 0, 1), page(4, 10_001, 0), page(4, 0, 3)] {
            assert_eq!(short(wrong), Some(Shortfall::Page), "{wrong:?}");
        }
    }
}
