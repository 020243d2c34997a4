//! The kernel's clock discipline, read and not touched.

use facts::Fact;

/// The fields of [`facts::steering::parse_adjtimex`].
pub(crate) fn state() -> Fact<String> {
    match linux::adjtimex::read() {
        Ok(read) => Fact::Known(format!(
            "offset {}\nfrequency {}\nmaxerror {}\nesterror {}\nstatus {}\ntick {}\ntai {}\nstate {}\n",
            read.offset,
            read.frequency,
            read.max_error_us,
            read.estimated_error_us,
            read.status,
            read.tick_us,
            read.tai_s,
            read.state,
        )),
        Err(error) => Fact::Unknown(crate::privilege::unknown("adjtimex", &error)),
    }
}
