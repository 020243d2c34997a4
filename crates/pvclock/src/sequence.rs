//! The sequence protocol that all pages share.
//!
//! A writer marks the page as being written, changes the fields, and gives it
//! a new version. A reader takes the version, the fields, and the version
//! again; unless both are the same and not the mark, it tries again.
//!
//! The order needed, and what gives it:
//!
//! | writer | reader |
//! | --- | --- |
//! | store mark | load version |
//! | release fence | acquire fence |
//! | store fields | load fields, read the counter |
//! | release fence | acquire fence |
//! | store new version | load version again |
//!
//! A reader that saw one new field has, by the first fence of the writer and
//! its own second, the mark or something newer at its second load. A reader
//! that saw the new version at its first load has, by the writer's second
//! fence and its own first, all new fields. The loom models in
//! `tests/loom.rs` try every interleaving of this.

use crate::ReadError;
use crate::shared::{Memory, Word};

/// How often a reader tries before it gives up. With a pause of some 10 to
/// 60 ns between two tries that is 1 to 6 ms: longer than a host needs for
/// any update, short enough to fall back to another source.
pub const DEFAULT_TRIES: u32 = 100_000;

/// How a page's version shows that it is being written.
pub(crate) trait Marking {
    /// Whether fields read between these two loads of the version are whole.
    fn is_whole(before: u32, after: u32) -> bool;

    /// Whether this version means that there is nothing to wait for.
    fn is_off(version: u32) -> bool;

    /// The mark that follows `version`, and the version that follows it.
    fn next(version: u32) -> (u32, u32);
}

/// kvm-clock, VMClock, steal time: odd while the host writes.
pub(crate) enum OddWhileWriting {}

impl Marking for OddWhileWriting {
    /// One comparison for both conditions: an odd `before` is compared as the
    /// even version below it, which a page that counts up never shows again.
    #[inline(always)]
    fn is_whole(before: u32, after: u32) -> bool {
        before & !1 == after
    }

    #[inline(always)]
    fn is_off(_: u32) -> bool {
        false
    }

    /// A page found with an odd version (a writer died, or the memory is
    /// junk) goes from odd to odd: no reader may take its fields for whole.
    fn next(version: u32) -> (u32, u32) {
        let mark = (version | 1).wrapping_add(if version & 1 == 1 { 2 } else { 0 });
        (mark, mark.wrapping_add(1))
    }
}

/// Hyper-V: 0 while the host writes, and for as long as the page is not to
/// be used. 0xFFFF_FFFF is reserved, and meant the same in old hosts.
pub(crate) enum ZeroWhileWriting {}

impl Marking for ZeroWhileWriting {
    #[inline(always)]
    fn is_whole(before: u32, after: u32) -> bool {
        before == after && !Self::is_off(before)
    }

    #[inline(always)]
    fn is_off(version: u32) -> bool {
        version.wrapping_add(1) <= 1
    }

    fn next(version: u32) -> (u32, u32) {
        let next = version.wrapping_add(1);
        (0, if Self::is_off(next) { 1 } else { next })
    }
}

/// One try: the fields guarded by `version` and that version, if they are one
/// whole. It is all a hot path needs, with the loop of [`read`] out of line.
#[inline(always)]
pub(crate) fn read_once<M: Memory, S: Marking, T>(
    version: &M::U32,
    fields: impl FnOnce() -> T,
) -> Option<(u32, T)> {
    let before = version.load();
    M::fence_acquire();
    let value = fields();
    M::fence_acquire();
    S::is_whole(before, version.load()).then_some((before, value))
}

/// Reads the fields guarded by `version` as one whole.
///
/// # Errors
/// [`ReadError::NeverFinished`] after `tries`, [`ReadError::SwitchedOff`].
pub(crate) fn read<M: Memory, S: Marking, T>(
    version: &M::U32,
    tries: u32,
    mut fields: impl FnMut() -> T,
) -> Result<(u32, T), ReadError> {
    for _ in 0..tries {
        if let Some(whole) = read_once::<M, S, T>(version, &mut fields) {
            return Ok(whole);
        }
        if S::is_off(version.load()) {
            break;
        }
        M::pause();
    }
    let version = version.load();
    Err(if S::is_off(version) {
        ReadError::SwitchedOff { version }
    } else {
        ReadError::NeverFinished { version, tries }
    })
}

/// Changes the fields guarded by `version`, whose last steady value (or
/// whatever the page was found with) is `last`. Returns the new version.
#[inline]
pub(crate) fn write<M: Memory, S: Marking>(
    version: &M::U32,
    last: u32,
    store_fields: impl FnOnce(),
) -> u32 {
    let (mark, next) = S::next(last);
    version.store(mark);
    M::fence_release();
    store_fields();
    M::fence_release();
    version.store(next);
    next
}

#[cfg(test)]
mod tests {
    use super::{Marking, OddWhileWriting, ZeroWhileWriting};

    #[test]
    fn parity_goes_from_even_over_odd_to_even_and_wraps() {
        assert_eq!(OddWhileWriting::next(0), (1, 2));
        assert_eq!(OddWhileWriting::next(40), (41, 42));
        assert_eq!(OddWhileWriting::next(u32::MAX - 1), (u32::MAX, 0));
    }

    #[test]
    fn an_odd_page_is_never_seen_even_before_it_is_whole() {
        assert_eq!(OddWhileWriting::next(41), (43, 44));
        assert_eq!(OddWhileWriting::next(u32::MAX), (1, 2));
    }

    #[test]
    fn hyperv_counts_on_past_its_two_reserved_values() {
        assert_eq!(ZeroWhileWriting::next(0), (0, 1));
        assert_eq!(ZeroWhileWriting::next(7), (0, 8));
        assert_eq!(ZeroWhileWriting::next(u32::MAX - 1), (0, 1));
        assert_eq!(ZeroWhileWriting::next(u32::MAX), (0, 1));
        assert!(ZeroWhileWriting::is_off(0) && ZeroWhileWriting::is_off(u32::MAX));
        assert!(ZeroWhileWriting::is_whole(1, 1) && !ZeroWhileWriting::is_whole(0, 0));
    }
}
