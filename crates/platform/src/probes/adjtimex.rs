//! The kernel's clock discipline, read only.
//!
//! # Safety
//!
//! `adjtimex` reads and fills one `timex`. All zeroes are a valid `timex`,
//! and its `modes` of zero means that nothing is set (`man 2 adjtimex`).
#![allow(unsafe_code)]

use std::fmt::Write;

use facts::Fact;

/// The fields of [`facts::steering::parse_adjtimex`].
pub(crate) fn state() -> Fact<String> {
    // SAFETY: integers only: all zeroes are a value of it.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: one whole `timex` of ours, with `modes` zero.
    let state = unsafe { libc::adjtimex(&mut timex) };
    if state < 0 {
        return Fact::Unknown(crate::privilege::why("adjtimex", &std::io::Error::last_os_error()));
    }
    let mut text = String::new();
    let mut put = |name: &str, value: i64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {value}");
    };
    put("offset", timex.offset);
    put("frequency", timex.freq);
    put("maxerror", timex.maxerror);
    put("esterror", timex.esterror);
    put("status", i64::from(timex.status));
    put("tick", timex.tick);
    put("tai", i64::from(timex.tai));
    put("state", i64::from(state));
    Fact::Known(text)
}
