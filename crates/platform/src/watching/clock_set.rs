//! The kernel tells when somebody sets the time of day: a timer of
//! CLOCK_REALTIME that never comes is cancelled by it (`man 2
//! timerfd_create`, TFD_TIMER_CANCEL_ON_SET).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use facts::Fact;

/// In the year 36812: the kernel takes it, and nobody waits for it.
const NEVER: Timespec = Timespec { tv_sec: 1 << 40, tv_nsec: 0 };

/// Such a timer.
#[derive(Debug)]
pub struct ClockSet {
    timer: OwnedFd,
}

impl ClockSet {
    /// Tells of what happens from now on.
    pub fn new() -> Fact<Self> {
        let timer = || {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
            let at =
                Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: NEVER };
            let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
            timerfd_settime(&timer, flags, &at)?;
            Ok::<_, Errno>(Self { timer })
        };
        match timer() {
            Ok(timer) => Fact::Known(timer),
            Err(error) => Fact::Unknown(crate::privilege::why("timerfd", &error.into())),
        }
    }

    /// Whether the time of day was set since the last time.
    pub fn was_set(&self) -> bool {
        let mut ticks = [0; 8];
        matches!(rustix::io::read(&self.timer, &mut ticks), Err(Errno::CANCELED))
    }
}

/// Readable as soon as the time of day was set.
impl AsFd for ClockSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That it tells of a set is tested where the clock may be set: in a
    /// machine of our own.
    #[test]
    fn nobody_set_the_clock_just_now() {
        let timer = ClockSet::new();
        assert!(timer.is_known_and(|timer| !timer.was_set()), "{timer:?}");
    }
}
