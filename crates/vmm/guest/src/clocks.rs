//! Every clock, in nanoseconds: the wraps of short counters are counted.

use pvclock::counter::Counter;
use pvclock::hyperv::{ReferenceReader, UNITS_PER_SECOND};
use pvclock::kvm_clock::TimeReader;
use pvclock::shared::Memory;
use pvclock::{Hertz, Nanos, ReadError, Scale};

use crate::discovery::{Discovery, HV_COUNTER};
use crate::hardware::Hardware;
use crate::request::RequestOutcome;
use crate::source::Source;
use crate::{hpet, pm_timer, rtc};

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const FEMTOS_PER_NANO: u128 = 1_000_000;
/// A page may begin in its TSC's future by as much as the host errs about the
/// TSC's offset. Further off, it is not this TSC's page.
const BEHIND_MOST: Nanos = Nanos(1_000_000);
const NANOS_PER_UNIT: u64 = 1_000_000_000 / UNITS_PER_SECOND;

/// A counter of few bits, extended to 64.
#[derive(Debug, Clone, Copy)]
struct FollowedPage {
    bits: u32,
    /// TSC cycles until it wraps; a gap nearly as long may hide a whole wrap.
    round_cycles: u64,
    total: u64,
    last: u64,
    last_tsc: u64,
    lost: bool,
}

impl FollowedPage {
    fn follow(&mut self, count: u64, tsc: u64) -> Result<u64, RequestOutcome> {
        let mask = (1 << self.bits) - 1;
        // A sixteenth is left for a wrong advertised TSC frequency.
        self.lost |= tsc.wrapping_sub(self.last_tsc) > self.round_cycles / 16 * 15;
        self.total += count.wrapping_sub(self.last) & mask;
        (self.last, self.last_tsc) = (count, tsc);
        if self.lost { Err(RequestOutcome::WentRound) } else { Ok(self.total) }
    }
}

/// The clocks of one vCPU.
#[derive(Debug)]
pub struct GuestClocks {
    found: Discovery,
    vcpu: usize,
    tsc_base: u64,
    tsc_scale: Option<Scale>,
    hpet_period_fs: u64,
    pm_timer: Option<FollowedPage>,
    hpet: Option<FollowedPage>,
}

impl GuestClocks {
    /// From the clocks found; no counter is extended yet.
    pub fn new(hardware: &impl Hardware, found: Discovery, vcpu: usize) -> Self {
        Self {
            found,
            vcpu,
            tsc_base: hardware.counter().read_ordered(),
            tsc_scale: Scale::from_hertz(found.tsc).ok(),
            hpet_period_fs: hpet::period_fs(hardware).unwrap_or(0),
            pm_timer: None,
            hpet: None,
        }
    }

    /// The clocks found at the start.
    pub fn discovery(&self) -> &Discovery {
        &self.found
    }

    /// The TSC's scale, from its advertised or measured frequency.
    pub fn tsc_scale(&self) -> Option<Scale> {
        self.tsc_scale
    }

    /// The clock's time in ns between two readings of the TSC. For the RTC
    /// they are those around the moment at which its second began.
    ///
    /// # Errors
    /// Why there is none.
    pub fn read_between(
        &mut self,
        hardware: &impl Hardware,
        source: Source,
    ) -> Result<(u64, u64, u64), RequestOutcome> {
        if source == Source::Rtc && self.found.has(source) {
            let edge = rtc::next_second(hardware).ok_or(RequestOutcome::Unreadable)?;
            return Ok((edge.before, edge.seconds * NANOS_PER_SECOND as u64, edge.after));
        }
        let before = hardware.counter().read_ordered();
        let time = self.read(hardware, source)?;
        Ok((before, time, hardware.counter().read_ordered()))
    }

    /// The clock's time in ns, by an epoch of its own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn read(
        &mut self,
        hardware: &impl Hardware,
        source: Source,
    ) -> Result<u64, RequestOutcome> {
        if !self.found.has(source) {
            return Err(RequestOutcome::NoSuchClock);
        }
        match source {
            Source::Tsc => {
                let since = hardware.counter().read_ordered().wrapping_sub(self.tsc_base);
                let scale = self.tsc_scale.ok_or(RequestOutcome::NoSuchClock)?;
                scale.nanos(since).map(|nanos| nanos.0).ok_or(RequestOutcome::Unreadable)
            }
            Source::KvmClock => {
                let reader = TimeReader::new(&hardware.pages().vcpus[self.vcpu].time);
                match reader.nanos_ordered(hardware.counter()) {
                    Ok(time) => Ok(time.0),
                    Err(error) => earliest_of(&reader, error).ok_or(RequestOutcome::Unreadable),
                }
            }
            Source::HyperVPage => {
                let units = ReferenceReader::new(&hardware.pages().reference)
                    .units_100ns_ordered(hardware.counter());
                units.map(|units| units * NANOS_PER_UNIT).map_err(|_| RequestOutcome::Unreadable)
            }
            Source::HyperVCounter => hardware
                .read_msr(HV_COUNTER)
                .map(|units| units.wrapping_mul(NANOS_PER_UNIT))
                .map_err(|_| RequestOutcome::Refused),
            Source::AcpiPm => self.read_pm_timer(hardware),
            Source::Hpet => self.read_hpet(hardware),
            Source::Rtc => self.read_between(hardware, source).map(|(_, time, _)| time),
        }
    }

    fn read_pm_timer(&mut self, hardware: &impl Hardware) -> Result<u64, RequestOutcome> {
        let count = u64::from(pm_timer::read(hardware));
        let ticks = follow(&mut self.pm_timer, hardware, count, || {
            // 24 bits at this rate: 4.69 s.
            (24, round_cycles(self.found.tsc, 1 << 24, pm_timer::FREQUENCY.0))
        })?;
        Ok((u128::from(ticks) * NANOS_PER_SECOND / u128::from(pm_timer::FREQUENCY.0)) as u64)
    }

    fn read_hpet(&mut self, hardware: &impl Hardware) -> Result<u64, RequestOutcome> {
        let count = u64::from(hpet::read(hardware));
        let period = u128::from(self.hpet_period_fs);
        let frequency = NANOS_PER_SECOND * FEMTOS_PER_NANO / period.max(1);
        let ticks = follow(&mut self.hpet, hardware, count, || {
            (32, round_cycles(self.found.tsc, 1 << 32, frequency as u64))
        })?;
        Ok((u128::from(ticks) * period / FEMTOS_PER_NANO) as u64)
    }
}

/// The page's own time, where the counter is behind the page's time stamp by no
/// more than [`BEHIND_MOST`]: Linux's vDSO too takes a counter that is behind for
/// one that has not moved (vdso_calc_ns, lib/vdso/gettimeofday.c).
fn earliest_of<M: Memory>(reader: &TimeReader<'_, M>, error: ReadError) -> Option<u64> {
    let ReadError::CounterBehind { counter, .. } = error else { return None };
    // The page may have been written since: then this is its new time, which
    // no reading of the old one was beyond.
    let info = reader.info().ok()?;
    let behind = info.tsc_timestamp.wrapping_sub(counter);
    (info.scale.nanos(behind)? <= BEHIND_MOST).then_some(info.system_time.0)
}

fn follow(
    slot: &mut Option<FollowedPage>,
    hardware: &impl Hardware,
    count: u64,
    begin: impl FnOnce() -> (u32, u64),
) -> Result<u64, RequestOutcome> {
    let tsc = hardware.counter().read_ordered();
    let followed = slot.get_or_insert_with(|| {
        let (bits, round_cycles) = begin();
        FollowedPage { bits, round_cycles, total: 0, last: count, last_tsc: tsc, lost: false }
    });
    followed.follow(count, tsc)
}

/// Cycles of a TSC of rate `tsc` in `ticks` of a counter of `frequency_hz`.
fn round_cycles(tsc: Hertz, ticks: u64, frequency_hz: u64) -> u64 {
    let cycles = u128::from(tsc.0) * u128::from(ticks) / u128::from(frequency_hz.max(1));
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use pvclock::kvm_clock::{TimePage, TimeUpdate, TimeWriter};

    use super::*;

    #[test]
    fn a_counter_is_followed_round_and_a_gap_is_told() {
        let mut followed = FollowedPage {
            bits: 16,
            round_cycles: 1600,
            total: 0,
            last: 65_000,
            last_tsc: 0,
            lost: false,
        };
        assert_eq!(followed.follow(65_500, 100), Ok(500));
        assert_eq!(followed.follow(464, 200), Ok(1000));
        assert_eq!(followed.follow(464, 1700), Ok(1000));
        assert_eq!(followed.follow(465, 3300), Err(RequestOutcome::WentRound));
        // It stays lost: the number of wraps is unknown.
        assert_eq!(followed.follow(466, 3301), Err(RequestOutcome::WentRound));
    }

    #[test]
    fn a_page_that_begins_a_little_later_is_read_as_its_beginning() {
        let page = TimePage::new();
        let update = TimeUpdate {
            tsc_timestamp: 2_000_000_000,
            system_time: Nanos(700),
            scale: Scale::from_hertz(Hertz(1_000_000_000)).unwrap(),
            stable: false,
        };
        TimeWriter::new(&page).write(&update);
        let reader = TimeReader::new(&page);
        let read = |counter: u64| match reader.nanos_ordered(&|| counter) {
            Ok(time) => Some(time.0),
            Err(error) => earliest_of(&reader, error),
        };
        assert_eq!(read(2_000_000_005), Some(705));
        assert_eq!(read(2_000_000_000 - 10_000), Some(700));
        assert_eq!(read(1_999_000_000), Some(700));
        assert_eq!(read(1_998_999_999), None);
        assert_eq!(read(0), None);
    }

    #[test]
    fn a_round_of_the_pm_timer_takes_4_69_s() {
        let cycles = round_cycles(Hertz(1_000_000_000), 1 << 24, pm_timer::FREQUENCY.0);
        assert_eq!(cycles / 10_000_000, 468);
    }
}
