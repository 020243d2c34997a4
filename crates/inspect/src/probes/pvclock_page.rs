//! The kvm-clock page that the kernel maps into every process.

use facts::{Fact, Unknown};
use linux::pvclock_page::{Copier, SIZE, address};
use pvclock::kvm_clock::TimePage;

/// The fields of [`facts::hardware::parse_pvclock_page`].
pub(crate) fn fields() -> Fact<String> {
    let copy = || Copier::new()?.read(address()?);
    fact(copy()).map(|bytes| text(&bytes))
}

/// The page in place, or why there is none.
pub fn in_place() -> Fact<&'static TimePage> {
    fact(linux::pvclock_page::in_place())
}

/// The fact behind the kernel's result.
pub(crate) fn fact<T>(result: std::io::Result<T>) -> Fact<T> {
    let error = match result {
        Ok(value) => return Fact::Known(value),
        Err(error) => error,
    };
    Fact::Unknown(if error.raw_os_error() == Some(libc::EFAULT) {
        let why = "the kernel maps no kvm-clock page: kvm-clock was not its clock source";
        Unknown::not_applicable(why)
    } else if error.raw_os_error().is_none() && error.kind() == std::io::ErrorKind::NotFound {
        Unknown::not_there("a mapping of kernel clock data")
    } else {
        crate::unknown_of("the kvm-clock page", &error)
    })
}

fn text(bytes: &[u8; SIZE]) -> String {
    let u32_at =
        |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
    format!(
        "version {}\ntsc_timestamp {}\nsystem_time_ns {}\ntsc_to_system_mul {}\n\
         tsc_shift {}\nflags {}\n",
        u32_at(0),
        u64_at(8),
        u64_at(16),
        u32_at(24),
        bytes[28] as i8,
        bytes[29]
    )
}
