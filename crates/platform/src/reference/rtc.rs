//! The battery-backed clock, as the kernel's sysfs shows it: whole seconds.

use std::path::{Path, PathBuf};

use facts::{Fact, Unknown};

/// Where the kernel lists them.
const CLASS: &str = "/sys/class/rtc";

/// A real-time clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rtc {
    path: PathBuf,
}

impl Rtc {
    /// `rtc0`.
    pub fn find() -> Fact<Self> {
        Self::below(Path::new(CLASS), "rtc0")
    }

    fn below(class: &Path, device: &str) -> Fact<Self> {
        let rtc = Self { path: class.join(device).join("since_epoch") };
        rtc.read_s().map(|_| rtc)
    }

    /// Its seconds since 1970: the time is up to one more.
    pub fn read_s(&self) -> Fact<u64> {
        let what = self.path.display().to_string();
        match std::fs::read_to_string(&self.path) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(|_| Unknown::malformed(&what, "seconds since 1970", &text))
                .into(),
            Err(error) => Fact::Unknown(crate::privilege::why(&what, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_and_nonsense_is_not() {
        let class = tempfile::tempdir().unwrap();
        assert!(Rtc::below(class.path(), "rtc0").unknown().is_some());
        std::fs::create_dir(class.path().join("rtc0")).unwrap();
        let file = class.path().join("rtc0/since_epoch");
        std::fs::write(&file, "1795000000\n").unwrap();
        let rtc = Rtc::below(class.path(), "rtc0");
        let rtc = rtc.known().unwrap();
        assert_eq!(rtc.read_s(), Fact::Known(1_795_000_000));
        std::fs::write(&file, "-1\n").unwrap();
        assert!(matches!(rtc.read_s(), Fact::Unknown(Unknown::Malformed { .. })));
    }
}
