//! A counter's two readings in a line of the watchdog.

use instruments::figures;

/// `wd_now: 5f… wd_last: 5e… mask: ffffff` of the reference, `cs_now` and
/// `cs_last` of the source under check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchdogCounter {
    now: u64,
    last: u64,
    mask: u64,
}

impl WatchdogCounter {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let (_, after) = text.split_once(name)?;
            u64::from_str_radix(after.split_whitespace().next()?, 16).ok()
        };
        let (now, last) = (field("_now: ")?, field("_last: ")?);
        // A line may be cut before its mask.
        let has_mask = text.contains("mask");
        let mask = if has_mask { field("mask: ")? } else { 0 };
        // A mask that is cut at the end of the line has fewer digits than the counter.
        let is_cut = mask & mask.wrapping_add(1) == 0 && now.max(last) > mask;
        let whole = if text.contains("cs_now") { u64::MAX } else { u32::MAX.into() };
        Some(Self { now, last, mask: if is_cut { whole } else { mask } })
    }

    /// Ticks between its readings, less whole wraps; a 64-bit counter that
    /// went backward counts as 0.
    pub(super) fn ticks(self) -> u64 {
        if self.backward().is_some() { 0 } else { self.now.wrapping_sub(self.last) & self.mask }
    }

    /// The difference that its line shows: `hpet: 1b8ad51 − 14b7d82 = 7 155 663 ticks`.
    pub(super) fn difference(self) -> String {
        let Self { now, last, .. } = self;
        let ticks = match self.backward() {
            Some(ticks) => format!("−{}", figures::count(ticks)),
            None => figures::count(self.ticks()),
        };
        format!("{now:x} − {last:x} = {ticks} ticks")
    }

    /// Whether the kernel took the ticks for a step back and counted none: on
    /// x86 so many that they pass half of the counter's range
    /// (kernel/time/timekeeping_internal.h, `clocksource_delta`).
    pub(super) fn is_discarded(self) -> bool {
        self.ticks() > self.mask >> 1
    }

    /// Ticks after which it wraps; a 64-bit one takes centuries.
    pub(super) fn range(self) -> Option<f64> {
        (self.mask < u64::MAX).then_some(self.mask as f64 + 1.0)
    }

    /// By how much a 64-bit counter is smaller than before: it went backward.
    pub(super) fn backward(self) -> Option<u64> {
        (self.mask == u64::MAX && self.now < self.last).then(|| self.last - self.now)
    }

    /// The device gave all ones: no reading, but what a bus returns when
    /// nothing answers.
    pub(super) fn is_no_answer(self) -> bool {
        self.mask < u64::MAX && self.now & self.mask == self.mask
    }

    /// Both readings are the same.
    pub(super) fn stands(self) -> bool {
        self.now == self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_counter_is_counted_across_its_wrap() {
        // acpi_pm: 24 bits.
        let line = "'acpi_pm' wd_nsec: 499998883 wd_now: 10e1d1 wd_last: f5922c mask: ffffff";
        let counter = WatchdogCounter::parse(line).unwrap();
        assert_eq!((counter.ticks(), counter.is_discarded()), (1_789_861, false));
        assert_eq!((counter.backward(), counter.range()), (None, Some(16_777_216.0)));
    }

    #[test]
    fn more_than_half_of_the_range_counts_as_nothing() {
        let line = "'acpi_pm' wd_now: f4b7d wd_last: 6c50c5 mask: ffffff";
        assert!(WatchdogCounter::parse(line).unwrap().is_discarded());
    }

    #[test]
    fn a_smaller_tsc_went_backward() {
        let line = "'tsc' cs_nsec: 0 cs_now: 1000 cs_last: 9000 mask: ffffffffffffffff";
        let counter = WatchdogCounter::parse(line).unwrap();
        assert_eq!((counter.backward(), counter.ticks()), (Some(0x8000), 0));
        assert!(!counter.is_discarded() && !counter.is_no_answer());
    }

    #[test]
    fn lines_cut_short_give_no_counter() {
        for line in ["", "'hpet' wd_now: ", "wd_now: zz wd_last: 1 mask: 3", "wd_now: 1 mask: 3"] {
            assert_eq!(WatchdogCounter::parse(line), None, "{line:?}");
        }
    }
}
