//! A notification when the time of day is set: it cancels a CLOCK_REALTIME
//! timer (`man 2 timerfd_create`, TFD_TIMER_CANCEL_ON_SET).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The year 36812: the kernel accepts it, and it does not expire.
const NEVER: Timespec = Timespec { tv_sec: 1 << 40, tv_nsec: 0 };

/// Such a timer. Its descriptor is readable as soon as the time of day was
/// set.
#[derive(Debug)]
pub struct ClockSet(OwnedFd);

impl ClockSet {
    /// Reports what happens from now on.
    ///
    /// # Errors
    /// The kernel creates no timer.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: NEVER };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &at)?;
        Ok(Self(timer))
    }

    /// Whether the time of day was set since the last call.
    pub fn was_set(&self) -> bool {
        let mut ticks = [0; 8];
        matches!(rustix::io::read(&self.0, &mut ticks), Err(Errno::CANCELED))
    }
}

impl AsFd for ClockSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That it reports a set is tested where the clock may be set: in a
    /// virtual machine.
    #[test]
    fn nobody_set_the_clock_just_now() {
        assert!(!ClockSet::new().unwrap().was_set());
    }
}
