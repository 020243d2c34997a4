//! What says outright that something happened: VMClock, the kernel's log and
//! its messages.

use facts::Sample;
use facts::hardware::VmClock;
use facts::kernel::{LogEvent, LogLine};

use super::Noticed;
use crate::Evidence;

/// The last of what can be compared.
#[derive(Debug, Default)]
pub(super) struct Signs {
    vmclock: Option<VmClock>,
}

impl Signs {
    pub(super) fn observe(&mut self, look: &Sample, noticed: &mut Noticed) {
        let at_ns = look.monotonic_ns;
        if let Some(now) = look.vmclock.known()
            && let Some(before) = self.vmclock.replace(now.clone())
        {
            compare(&before, now).for_each(|evidence| noticed.evidence(at_ns, evidence));
        }
        let lines = look.log.known().map_or(&[][..], Vec::as_slice);
        for line in lines.iter().filter(|line| matters(line)) {
            noticed.evidence(at_ns, Evidence::Log { line: line.text.clone() });
        }
        if look.was_set.is_known_and(|set| *set) {
            noticed.evidence(at_ns, Evidence::WasSet);
        }
        if look.new_generation.is_known_and(|new| *new) {
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

fn matters(line: &LogLine) -> bool {
    matches!(
        line.event,
        LogEvent::Restored
            | LogEvent::Resumed
            | LogEvent::LeapSecond
            | LogEvent::Switched { .. }
            | LogEvent::MarkedUnstable { .. }
    )
}
