//! The kernel's own kvm-clock page in this process, to be read in place: what
//! the vDSO does, done by `pvclock`.
//!
//! # Invariants
//! 1. `probes::pvclock_page::read` has the kernel itself read the page on
//!    our behalf, and its success means that the page is mapped here.
//! 2. The mapping stays as long as the process: the kernel takes it out only
//!    when the process enters another time namespace or unmaps it itself
//!    (arch/x86/entry/vdso/vma.c), and nothing in Parachron does either.
//! 3. The page is mapped read-only, and the host's writes are what
//!    `pvclock`'s readers are made for.
#![allow(unsafe_code)]

use pvclock::kvm_clock::TimePage;
use pvclock::shared;

use crate::probes;
use facts::{Fact, Unknown};

/// The page, or why there is none.
pub fn find() -> Fact<&'static TimePage> {
    probes::pvclock_page::address().and_then(|address| {
        probes::pvclock_page::read(address).and_then(|_| {
            let start = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: mapped (invariant 1), for good (2), and nobody in this
            // process writes to it (3).
            match unsafe { shared::page_at(start) } {
                Ok(page) => Fact::Known(page),
                Err(error) => Fact::Unknown(Unknown::Unreadable {
                    what: "the kvm-clock page".into(),
                    error: error.to_string(),
                }),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use pvclock::counter::Tsc;
    use pvclock::kvm_clock::TimeReader;

    use super::*;

    #[test]
    fn the_page_in_place_counts_on() {
        match find() {
            Fact::Known(page) => {
                let reader = TimeReader::new(page);
                let first = reader.nanos_ordered(&Tsc).unwrap();
                assert!(reader.nanos_ordered(&Tsc).unwrap() >= first);
            }
            Fact::Unknown(why) => crate::skipped(&why.to_string()),
        }
    }
}
