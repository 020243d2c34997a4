//! Memory that a process of long life needs at its start alone.
//!
//! # Invariants
//! 1. A mapping of a file that may not be written to, and of which no page is
//!    the process's own (`Anonymous: 0 kB`), holds what the file holds. Dropped
//!    with MADV_DONTNEED, its pages come back from the file at the next use
//!    (`man 2 madvise`).
#![allow(unsafe_code)]

use std::ffi::c_void;

use rustix::mm::{Advice, madvise};

/// Lets go of the code that was used so far: that of the start, reading
/// options for the most part, is never used again, and the rest comes back from
/// the page cache in microseconds. How many bytes were let go of at most.
pub fn give_back_code() -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    unchanged_code(&smaps).into_iter().map(|(start, end)| drop_pages(start, end)).sum()
}

fn drop_pages(start: usize, end: usize) -> usize {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(start);
    // SAFETY: invariant 1: the kernel just said so of this mapping.
    match unsafe { madvise(at, end - start, Advice::LinuxDontNeed) } {
        Ok(()) => end - start,
        // It stays: no harm.
        Err(_) => 0,
    }
}

/// The mappings of files that hold code, unchanged.
fn unchanged_code(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut code = None;
    for line in smaps.lines() {
        if let Some(mapping) = heading(line) {
            code = Some(mapping.bounds).filter(|_| mapping.is_code);
        } else if line.strip_prefix("Anonymous:").is_some_and(|rest| rest.trim() == "0 kB") {
            found.extend(code.take());
        }
    }
    found
}

struct Heading {
    bounds: (usize, usize),
    is_code: bool,
}

/// `START-END r-xp OFFSET DEVICE INODE PATH`
fn heading(line: &str) -> Option<Heading> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    let bounds = (address(start)?, address(end)?);
    let rights = words.next()?;
    let path = words.nth(3).unwrap_or_default();
    let is_code = rights == "r-xp" && path.starts_with('/') && bounds.0 < bounds.1;
    Some(Heading { bounds, is_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0a00000-55d0c0b00000 r--p 00000000 fd:00 12 /usr/bin/parachron
Anonymous:             0 kB
55d0c0b00000-55d0c0c00000 r-xp 00100000 fd:00 12 /usr/bin/parachron
Rss:                 640 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000001000 r-xp 00000000 fd:00 13 /usr/lib/patched.so
Anonymous:             4 kB
7f0000001000-7f0000002000 rwxp 00000000 fd:00 13 /usr/lib/jit.so
Anonymous:             0 kB
7f0000003000-7f0000004000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
";

    #[test]
    fn code_of_files_that_nobody_changed() {
        assert_eq!(unchanged_code(SMAPS), [(0x55d0_c0b0_0000, 0x55d0_c0c0_0000)]);
        assert!(unchanged_code("").is_empty());
    }

    #[test]
    fn the_program_goes_on_without_its_code() {
        let before = std::hint::black_box(unchanged_code)(SMAPS);
        assert!(give_back_code() > 0);
        assert_eq!(std::hint::black_box(unchanged_code)(SMAPS), before);
    }
}
