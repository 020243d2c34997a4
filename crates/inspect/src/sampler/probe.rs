//! One probe: what it reads, how often, and which field of the sample it
//! fills.

use facts::{Fact, Sample};

/// Fills one field of a sample.
pub(super) trait Probe {
    /// Reads it if it is due, and in any case if `all` are to be read.
    fn sample(&mut self, all: bool, sample: &mut Sample);
}

/// Reads a field from a device that is read no more often than its period.
struct Field<T, U> {
    device: Fact<T>,
    period_ns: u64,
    /// CLOCK_MONOTONIC when it was last read, ns.
    read_at_ns: Option<u64>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
}

/// Reads `device` in each sample: for what costs a system call or less.
pub(super) fn each_sample<T: 'static, U: 'static>(
    device: Fact<T>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
) -> Box<dyn Probe> {
    Box::new(Field { device, period_ns: 0, read_at_ns: None, read, field })
}

/// Reads `device` at most once per `period_ns`; between, the field stays as
/// the sampler initialised it.
pub(super) fn periodic<T: 'static, U: 'static>(
    period_ns: u64,
    device: Fact<T>,
    read: fn(&mut T) -> Fact<U>,
    field: fn(&mut Sample) -> &mut Fact<U>,
) -> Box<dyn Probe> {
    Box::new(Field { device, period_ns, read_at_ns: None, read, field })
}

impl<T, U> Probe for Field<T, U> {
    fn sample(&mut self, all: bool, sample: &mut Sample) {
        let device = match &mut self.device {
            Fact::Known(device) => device,
            Fact::Unknown(why) => {
                *(self.field)(sample) = Fact::Unknown(why.clone());
                return;
            }
        };
        let now_ns = sample.monotonic_ns;
        let is_due =
            self.read_at_ns.is_none_or(|last| now_ns.saturating_sub(last) >= self.period_ns);
        if all || is_due {
            self.read_at_ns = Some(now_ns);
            *(self.field)(sample) = (self.read)(device);
        }
    }
}
