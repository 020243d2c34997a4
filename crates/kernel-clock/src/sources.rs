//! The list of clock sources: which is in use, and which takes over.
//!
//! The best rated is taken; of equals the one registered first
//! (kernel/time/clocksource.c, `clocksource_enqueue`). While ticks are single
//! shots, which is always but in the first moments of a boot, only one that is
//! good for high resolution can be: continuous, and, if the watchdog has to
//! verify it, verified. One that the watchdog gives up is rated 0 and stays in the
//! list. A name that was written to `current_clocksource` or given as
//! `clocksource=` overrides the rating under the same condition.

use crate::source::{ClockSource, Continuity};

/// Sources that the list has room for.
const ROOM: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    source: ClockSource,
    is_verified: bool,
    is_unstable: bool,
}

impl Entry {
    fn is_for_high_resolution(&self) -> bool {
        self.source.continuity != Continuity::Ticks
            && !self.is_unstable
            && (self.is_verified || !self.source.is_watched)
    }
}

/// The clock sources of a machine.
///
/// ```
/// use kernel_clock::{ClockSource, Sources};
///
/// let mut sources = Sources::default();
/// sources.register(ClockSource::hpet(100_000_000));
/// sources.register(ClockSource::tsc(3_000_000, true, false));
/// let current = |sources: &Sources| sources.current().map(|source| source.name);
/// // Not before the watchdog has found it good.
/// assert_eq!(current(&sources), Some("hpet"));
/// sources.verified("tsc");
/// assert_eq!(current(&sources), Some("tsc"));
/// sources.unstable("tsc");
/// assert_eq!(current(&sources), Some("hpet"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources {
    /// The best rated first.
    entries: [Option<Entry>; ROOM],
    forced: Option<&'static str>,
    /// Ticks come by themselves, so that any source will do.
    is_periodic: bool,
}

impl Sources {
    /// Of a machine whose ticks are periodic, as with `highres=off nohz=off`.
    #[must_use]
    pub fn periodic() -> Self {
        Self { is_periodic: true, ..Self::default() }
    }

    /// Adds a source; false if there is no room for it.
    pub fn register(&mut self, source: ClockSource) -> bool {
        self.insert(Entry { source, is_verified: false, is_unstable: false })
    }

    fn insert(&mut self, entry: Entry) -> bool {
        if self.entries[ROOM - 1].is_some() {
            return false;
        }
        let is_better = |other: &Option<Entry>| {
            other.is_none_or(|other| other.source.rating < entry.source.rating)
        };
        let at = self.entries.iter().position(is_better).unwrap_or(ROOM - 1);
        self.entries[at..].rotate_right(1);
        self.entries[at] = Some(entry);
        true
    }

    /// Removes a source, as `tsc-early` when `tsc` is there.
    pub fn unregister(&mut self, name: &str) {
        self.take(name);
    }

    fn take(&mut self, name: &str) -> Option<Entry> {
        let has = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.source.name == name);
        let at = self.entries.iter().position(has)?;
        let entry = self.entries[at].take();
        self.entries[at..].rotate_left(1);
        entry
    }

    /// The watchdog has found it good.
    pub fn verified(&mut self, name: &str) {
        let found = self.entries.iter_mut().flatten().find(|entry| entry.source.name == name);
        if let Some(entry) = found {
            entry.is_verified = true;
        }
    }

    /// It was given up: by the watchdog, or by what the kernel knows of the CPU.
    pub fn unstable(&mut self, name: &str) {
        if let Some(mut entry) = self.take(name) {
            entry.is_unstable = true;
            entry.source.rating = 0;
            self.insert(entry);
        }
    }

    /// Takes this one rather than the best rated; none: that again.
    pub fn force(&mut self, name: Option<&'static str>) {
        self.forced = name;
    }

    /// The source to use now.
    #[must_use]
    pub fn current(&self) -> Option<&ClockSource> {
        let usable = || {
            let entries = self.entries.iter().flatten();
            entries.filter(|entry| self.is_periodic || entry.is_for_high_resolution())
        };
        let forced = usable().find(|entry| Some(entry.source.name) == self.forced);
        forced.or_else(|| usable().next()).map(|entry| &entry.source)
    }

    /// The reference of the watchdog: the best rated that needs none itself.
    #[must_use]
    pub fn reference(&self) -> Option<&ClockSource> {
        let is_one =
            |source: &&ClockSource| !source.is_watched && source.continuity != Continuity::Ticks;
        self.entries.iter().flatten().map(|entry| &entry.source).find(is_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Version};

    fn names(sources: &Sources) -> (Option<&str>, Option<&str>) {
        (sources.current().map(|one| one.name), sources.reference().map(|one| one.name))
    }

    #[test]
    fn a_boot_ends_on_tsc_and_a_given_up_tsc_is_never_taken_again() {
        let mut sources = Sources::default();
        sources.register(ClockSource::jiffies(Kernel::new(Version(6, 1, 0), 250)));
        assert_eq!(names(&sources), (None, None));
        sources.register(ClockSource::acpi_pm());
        sources.register(ClockSource::hpet(100_000_000));
        sources.register(ClockSource::tsc_early(1_000_000));
        assert_eq!(names(&sources), (Some("hpet"), Some("hpet")));
        sources.verified("tsc-early");
        assert_eq!(names(&sources), (Some("tsc-early"), Some("hpet")));
        sources.register(ClockSource::tsc(1_000_000, true, false));
        sources.verified("tsc");
        sources.unregister("tsc-early");
        assert_eq!(names(&sources), (Some("tsc"), Some("hpet")));
        sources.force(Some("acpi_pm"));
        assert_eq!(names(&sources), (Some("acpi_pm"), Some("hpet")));
        sources.force(Some("tsc"));
        sources.unstable("tsc");
        assert_eq!(names(&sources), (Some("hpet"), Some("hpet")));
    }

    #[test]
    fn of_equals_the_first_is_taken_and_the_list_has_an_end() {
        let mut sources = Sources::periodic();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            assert!(sources.register(ClockSource::new(name, 100, 1_000_000, 32)));
        }
        assert!(!sources.register(ClockSource::new("i", 400, 1_000_000, 32)));
        assert_eq!(names(&sources).0, Some("a"));
        sources.unregister("a");
        assert_eq!(names(&sources).0, Some("b"));
    }

    #[test]
    fn kvm_clock_yields_to_a_tsc_that_is_reliable() {
        let tsc = ClockSource::tsc(3_000_000, true, true);
        for (is_reliable, expected) in [(true, "tsc"), (false, "kvm-clock")] {
            let mut sources = Sources::default();
            sources.register(ClockSource::kvm_clock(is_reliable));
            sources.register(tsc);
            assert_eq!(names(&sources).0, Some(expected));
        }
    }
}
