//! An RTC compared with the system clock.

use std::time::{SystemTime, UNIX_EPOCH};

use facts::{Fact, Unknown};

/// RTC minus system clock, s.
pub(crate) fn minus_system(device: &str) -> Fact<String> {
    let path = format!("/sys/class/rtc/{device}/since_epoch");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Fact::Unknown(crate::privilege::unknown(&path, &error)),
    };
    let system_s = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64());
    let (Ok(rtc_s), Ok(system_s)) = (text.trim().parse::<i64>(), system_s) else {
        return Fact::Unknown(Unknown::malformed(&path, "seconds since 1970", &text));
    };
    // The RTC shows whole seconds: on average half of one is hidden.
    Fact::Known(format!("{:.0}\n", rtc_s as f64 + 0.5 - system_s))
}
