//! Publishes the clock's error bound in ClockBound's segments, for its clients.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use facts::Sample;
use keeper::KeptBound;
use keeper::event::{KeeperEvent, NotUsed};
use linux::clock::LinuxClock;
use linux::clockbound::PublishedSegment;
use pvclock::clockbound::{Layout, SegmentBound, SegmentCounter, SegmentStatus};

use crate::clockbound::counted::DisruptionCount;
use crate::settings::Settings;

pub(crate) mod counted;

/// How long what a killed daemon left counts: nobody notices disruptions then.
const VOID_AFTER_NS: u64 = 60_000_000_000;

/// A segment that was updated so recently may have a daemon, which shows itself
/// within that time.
const LIVE_NS: u64 = 5_000_000_000;

/// What the bound is published in, in events.
const SEGMENTS: &str = "ClockBound's segments";

/// The segments; none where nothing is published, or no more.
#[derive(Debug, Default)]
pub(crate) struct ClockBound {
    segments: Vec<(Layout, PublishedSegment)>,
    /// Whether clients can compare disruption markers: one that cannot open the page fails
    /// altogether.
    is_compared: bool,
    /// The last marker that a sample showed.
    marker: Option<u64>,
    counted: DisruptionCount,
    /// Nothing is written before this, CLOCK_MONOTONIC_COARSE, ns.
    held_until_ns: u64,
}

impl ClockBound {
    /// What the settings want; or nothing, and why.
    pub(crate) fn new(settings: &Settings, is_alone: bool, not_used: &mut Vec<NotUsed>) -> Self {
        let folder = settings.clockbound.as_ref().filter(|_| !settings.dry_run);
        let vmclock = &settings.paths.vmclock;
        not_used.extend(hidden_marker(settings));
        let opened = folder.map(|folder| Self::open(folder, vmclock, is_alone));
        opened.transpose().map(Option::unwrap_or_default).unwrap_or_else(|why| {
            not_used.push(NotUsed { source: SEGMENTS.to_owned(), why: why.to_string() });
            Self::default()
        })
    }

    /// Opens the segments in `folder`. `vmclock` is the page whose disruption
    /// marker clients compare, if they can read it. `is_alone`: no other process
    /// runs that publishes as we do.
    ///
    /// # Errors
    /// The system's.
    fn open(folder: &Path, vmclock: &Path, is_alone: bool) -> io::Result<Self> {
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
            // Whatever the umask.
            Ok(()) => {
                std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
            }
        }
        let open = |layout| Ok((layout, PublishedSegment::open(folder, layout)?));
        let segments = Layout::ALL.into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let now_ns = coarse_ns();
        let is_live = segments.iter().any(|(layout, segment)| {
            *layout == Layout::SystemClock
                && segment.read().is_some_and(|bound| {
                    bound.error_ns(now_ns).is_some()
                        && now_ns.saturating_sub(bound.as_of_ns) < LIVE_NS
                        && !(is_alone && is_ours(&bound))
                })
        });
        Ok(Self {
            segments,
            is_compared: is_public(vmclock) == Some(true),
            marker: None,
            counted: DisruptionCount::default(),
            held_until_ns: if is_live { now_ns.saturating_add(LIVE_NS) } else { 0 },
        })
    }

    /// Takes the disruption marker that a sample showed: what is published
    /// from now on accounts for it.
    pub(crate) fn note_sample(&mut self, sample: &Sample) {
        self.counted.note_sample(sample);
        if let Some(page) = sample.vmclock.value().filter(|_| self.is_compared) {
            self.marker = Some(page.disruption_marker);
        }
    }

    /// Publishes what is known of the clock: after each sample, before servers
    /// are polled, as the last bound may hold no more. An event where it ends because
    /// another process publishes here.
    pub(crate) fn publish(&mut self, known: KeptBound) -> Option<KeeperEvent> {
        let why = self.write(known).err()?.to_string();
        self.segments.clear();
        Some(KeeperEvent::SourceUnreachable { source: SEGMENTS.to_owned(), why })
    }

    fn write(&mut self, known: KeptBound) -> io::Result<()> {
        let as_of_ns = coarse_ns();
        if as_of_ns < self.held_until_ns {
            return Ok(());
        }
        let bound = bound(known, as_of_ns, LinuxClock::Monotonic.read_ns().unwrap_or(u64::MAX));
        let bound = SegmentBound { disruption_marker: self.marker, ..bound };
        for (layout, segment) in &mut self.segments {
            let bound = match layout {
                Layout::Counter => self.counted.bound(&bound, frequency_ppb(known)),
                _ => bound,
            };
            segment.write(&bound)?;
        }
        Ok(())
    }
}

/// Why clients compare no marker, where there is a page that has one.
fn hidden_marker(settings: &Settings) -> Option<NotUsed> {
    let vmclock = &settings.paths.vmclock;
    let publishes = settings.clockbound.is_some() && !settings.dry_run;
    let page = vmclock.display();
    (publishes && is_public(vmclock) == Some(false)).then(|| NotUsed {
        source: format!("disruption marker of {page}"),
        why: format!(
            "not everybody may read it, so clients of the error bound take one from before a \
             restore until the daemon notices; run `chmod a+r {page}`, then \
             `systemctl reload parachrond`"
        ),
    })
}

/// Whether everybody may read a page, if there is one.
fn is_public(vmclock: &Path) -> Option<bool> {
    let metadata = std::fs::metadata(vmclock).ok()?;
    Some(metadata.permissions().mode() & 0o004 != 0)
}

impl Drop for ClockBound {
    /// Nobody notices disruptions from now on.
    fn drop(&mut self) {
        let _ = self.write(KeptBound::Unknown);
    }
}

/// Whether we state what this says: ClockBound's own daemon lets a bound count for 1000 s (its
/// docs/PROTOCOL.md).
fn is_ours(bound: &SegmentBound) -> bool {
    bound.void_after_ns.saturating_sub(bound.as_of_ns) == VOID_AFTER_NS
}

/// What is known of the system's clock, as of CLOCK_MONOTONIC_COARSE, which is
/// `as_of_ns` when CLOCK_MONOTONIC is `now_ns`.
pub(crate) fn bound(known: KeptBound, as_of_ns: u64, now_ns: u64) -> SegmentBound {
    let void_after_ns = as_of_ns.saturating_add(VOID_AFTER_NS);
    let (status, max_drift_ppb) = match known {
        KeptBound::Unknown => (SegmentStatus::Unknown, 0),
        KeptBound::Disrupted => (SegmentStatus::Disrupted, 0),
        KeptBound::Within { growth_ppb, is_free_running: true, .. } => {
            (SegmentStatus::FreeRunning, growth_ppb)
        }
        KeptBound::Within { growth_ppb, .. } => (SegmentStatus::Synchronised, growth_ppb),
    };
    let bound_ns = known.error_ns(now_ns).unwrap_or(0);
    let counter = SegmentCounter::default();
    SegmentBound {
        as_of_ns,
        void_after_ns,
        bound_ns,
        status,
        max_drift_ppb,
        counter,
        ..SegmentBound::UNKNOWN
    }
}

/// By how much the kernel makes CLOCK_REALTIME faster than CLOCK_MONOTONIC_RAW, ppb.
fn frequency_ppb(known: KeptBound) -> i32 {
    match known {
        KeptBound::Within { frequency_ppb, .. } => frequency_ppb,
        KeptBound::Unknown | KeptBound::Disrupted => 0,
    }
}

/// The clock that clients compare with.
fn coarse_ns() -> u64 {
    LinuxClock::MonotonicCoarse.read_ns().unwrap_or_default()
}

#[cfg(test)]
mod tests;
