//! The one clock of a program that needs no settings.

use std::time::Duration;

use crate::machine::clock::Clock;
use crate::machine::instant::Instant;
use crate::machine::system_time::SystemTime;

static SHARED: Clock = Clock::new();

/// The clock behind [`Instant::now`] and [`SystemTime::now`].
pub fn shared() -> &'static Clock {
    &SHARED
}

impl Instant {
    /// Now, by the [shared clock](shared).
    #[inline]
    pub fn now() -> Self {
        shared().now()
    }

    /// How long ago it was, by the shared clock.
    #[inline]
    pub fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }
}

impl SystemTime {
    /// Now, by the [shared clock](shared).
    #[inline]
    pub fn now() -> Self {
        shared().system_time()
    }
}
