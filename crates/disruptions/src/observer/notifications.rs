//! Direct reports of a disruption: VMClock, the kernel's log and its
//! messages.

use facts::Sample;
use facts::hardware::VmClock;
use facts::kernel::{LogEvent, LogLine};

use super::noticed::Noticed;
use crate::Evidence;

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    vmclock: Option<VmClock>,
}

impl Notifications {
    pub(super) fn observe(&mut self, sample: &Sample, noticed: &mut Noticed) {
        let at_ns = sample.monotonic_ns;
        if let Some(now) = sample.vmclock.value()
            && let Some(before) = self.vmclock.replace(now.clone())
        {
            compare(&before, now).for_each(|evidence| noticed.evidence(at_ns, evidence));
        }
        let lines = sample.log.value().map_or(&[][..], Vec::as_slice);
        for line in lines.iter().filter(|line| is_relevant(line)) {
            noticed.evidence(at_ns, Evidence::Log { line: line.text.clone() });
        }
        if sample.was_set.is_known_and(|set| *set) {
            noticed.evidence(at_ns, Evidence::WasSet);
        }
        if sample.new_generation.is_known_and(|new| *new) {
            noticed.evidence(at_ns, Evidence::NewGeneration);
        }
    }
}

fn compare(before: &VmClock, now: &VmClock) -> impl Iterator<Item = Evidence> {
    let marker = (before.disruption_marker != now.disruption_marker).then_some({
        Evidence::VmClockMarker { before: before.disruption_marker, after: now.disruption_marker }
    });
    let generation = now
        .vm_generation
        .filter(|after| before.vm_generation != Some(*after))
        .map(|after| Evidence::VmClockGeneration { before: before.vm_generation, after });
    [marker, generation].into_iter().flatten()
}

fn is_relevant(line: &LogLine) -> bool {
    matches!(
        line.event,
        LogEvent::Restored
            | LogEvent::Resumed
            | LogEvent::LeapSecond
            | LogEvent::Switched { .. }
            | LogEvent::MarkedUnstable { .. }
    )
}
