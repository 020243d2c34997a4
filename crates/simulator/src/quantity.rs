//! Figures of a scenario. Each refuses what cannot be as it is read, so that the
//! reader's error has the line.

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($name:ident, $least:expr, $most:expr, $expected:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
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

impl Seconds {
    /// In ns.
    #[must_use]
    pub fn ns(self) -> i64 {
        (self.0 * 1e9).round() as i64
    }
}

impl Offset {
    /// In ns.
    #[must_use]
    pub fn ns(self) -> i64 {
        (self.0 * 1e9).round() as i64
    }
}

impl Millis {
    /// In ns.
    #[must_use]
    pub fn ns(self) -> i64 {
        (self.0 * 1e6).round() as i64
    }
}
