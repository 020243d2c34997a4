//! Figures of a scenario. Each refuses what cannot be as it is read, so that the
//! reader's error has the line.

use serde::Deserialize;

macro_rules! quantity {
    ($name:ident, $least:expr, $most:expr, $expected:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name(pub f64);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(value: f64) -> Result<Self, String> {
                if ($least..=$most).contains(&value) {
                    Ok(Self(value))
                } else {
                    Err(format!("{value}: expected {}", $expected))
                }
            }
        }
    };
}

quantity!(Ppm, 0.0, 500.0, "0 to 500 ppm", "Parts per million, not negative.");
quantity!(Fraction, 0.0, 1e-4, "0 to 1e-4, without a unit", "A fractional frequency.");
quantity!(Share, 0.0, 1.0, "a share, 0 to 1", "A share or a probability.");
quantity!(Seconds, 0.0, 3.2e7, "0 to 32000000 s, about a year", "A time, s.");
quantity!(Offset, -3.2e9, 3.2e9, "-3.2e9 to 3.2e9 s", "An offset, s, either way.");
quantity!(Millis, 0.0, 1e5, "0 to 100000 ms", "A time, ms.");
quantity!(Factor, 0.5, 2.0, "a factor, 0.5 to 2", "A rate, by the right one.");
quantity!(PerDay, 0.0, 1000.0, "0 to 1000 a day", "Times a day.");

/// Times, which are none where a scenario leaves them out.
macro_rules! time {
    ($($name:ident: $unit_ns:literal),*) => {$(
        impl Default for $name {
            fn default() -> Self {
                Self(0.0)
            }
        }

        impl $name {
            /// In ns.
            #[must_use]
            pub fn ns(self) -> i64 {
                (self.0 * $unit_ns).round() as i64
            }
        }
    )*};
}

time!(Seconds: 1e9, Offset: 1e9, Millis: 1e6);

/// A time of day, s since 1970: 1980 to 2200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct StartS(pub u64);

/// Seconds between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct PollInterval(pub u64);

impl TryFrom<u64> for StartS {
    type Error = String;

    fn try_from(value: u64) -> Result<Self, String> {
        if (315_532_800..7_258_118_400).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value}: expected s since 1970, of the years 1980 to 2199"))
        }
    }
}

/// A day of a run: 1 to 366.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct Day(pub u32);

impl TryFrom<u32> for Day {
    type Error = String;

    fn try_from(value: u32) -> Result<Self, String> {
        if (1..=366).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value}: expected a day of the run, 1 to 366"))
        }
    }
}

impl TryFrom<u64> for PollInterval {
    type Error = String;

    fn try_from(value: u64) -> Result<Self, String> {
        if (16..=4096).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value}: expected 16 to 4096 s between two requests"))
        }
    }
}

/// Ticks a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct TickHz(pub u32);

impl TryFrom<u32> for TickHz {
    type Error = String;

    fn try_from(value: u32) -> Result<Self, String> {
        if [100, 250, 300, 1000].contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value}: expected 100, 250, 300 or 1000 ticks a second"))
        }
    }
}
