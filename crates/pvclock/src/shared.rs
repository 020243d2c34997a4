//! Memory that another party writes while we read, or reads while we write.
//!
//! A page's fields are words of a [`Memory`]: atomics in production, and the
//! model checker's or the simulator's own words elsewhere, so that one reader
//! and one writer serve all worlds. Accesses are relaxed; order comes from
//! the fences alone. That keeps a reader sound on a page mapped read-only,
//! where only relaxed loads are promised to work (`std::sync::atomic`,
//! "Atomic accesses to read-only memory").

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub use crate::page::{Page, page_at};

/// Implemented here, and for a model checker's words: the traits below may gain methods.
#[doc(hidden)]
pub mod sealed {
    pub trait Sealed {}
}

/// A kind of shared memory: its words, and how they are ordered.
pub trait Memory: sealed::Sealed + Copy + fmt::Debug {
    /// A 32-bit word.
    type U32: Word<u32>;
    /// A 64-bit word.
    type U64: Word<u64>;

    /// Loads before it are done before loads and stores after it.
    fn fence_acquire();
    /// Loads and stores before it are done before stores after it.
    fn fence_release();
    /// Called between two tries of a read: yields to the other party.
    fn pause();
}

/// A word that both parties reach; every access is relaxed.
pub trait Word<T>: sealed::Sealed + fmt::Debug {
    /// A word of our own.
    fn new(value: T) -> Self;
    /// Its value.
    fn load(&self) -> T;
    /// Changes it.
    fn store(&self, value: T);
    /// Keeps only the bits of `mask`, in one step, and returns what was there.
    fn fetch_and(&self, mask: T) -> T;
}

/// Process or guest memory in which 64-bit fields are 8-byte aligned: the
/// usual case, one load a field.
#[derive(Debug, Clone, Copy)]
pub enum Aligned {}

/// Process or guest memory that is only 4-byte aligned, as kvm-clock's ABI
/// allows: 64-bit fields are two loads, made whole by the version check.
#[derive(Debug, Clone, Copy)]
pub enum Split {}

/// A 64-bit field as two 32-bit words, low half first.
#[derive(Debug)]
#[repr(transparent)]
pub struct SplitU64([AtomicU32; 2]);

macro_rules! native_memory {
    ($memory:ty, $u64:ty) => {
        impl sealed::Sealed for $memory {}

        impl Memory for $memory {
            type U32 = AtomicU32;
            type U64 = $u64;

            #[inline(always)]
            fn fence_acquire() {
                fence(Ordering::Acquire);
            }

            #[inline(always)]
            fn fence_release() {
                fence(Ordering::Release);
            }

            #[inline]
            fn pause() {
                core::hint::spin_loop();
            }
        }
    };
}

native_memory!(Aligned, AtomicU64);
native_memory!(Split, SplitU64);

macro_rules! native_word {
    ($atomic:ty, $value:ty) => {
        impl sealed::Sealed for $atomic {}

        impl Word<$value> for $atomic {
            #[inline]
            fn new(value: $value) -> Self {
                Self::new(value)
            }

            #[inline(always)]
            fn load(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }

            #[inline]
            fn fetch_and(&self, mask: $value) -> $value {
                self.fetch_and(mask, Ordering::Relaxed)
            }
        }
    };
}

native_word!(AtomicU32, u32);
native_word!(AtomicU64, u64);

const LOW: u64 = u32::MAX as u64;

impl sealed::Sealed for SplitU64 {}

impl Word<u64> for SplitU64 {
    #[inline]
    fn new(value: u64) -> Self {
        Self([AtomicU32::new((value & LOW) as u32), AtomicU32::new((value >> 32) as u32)])
    }

    #[inline(always)]
    fn load(&self) -> u64 {
        let [low, high] = &self.0;
        u64::from(Word::load(low)) | u64::from(Word::load(high)) << 32
    }

    #[inline(always)]
    fn store(&self, value: u64) {
        let [low, high] = &self.0;
        Word::store(low, (value & LOW) as u32);
        Word::store(high, (value >> 32) as u32);
    }

    #[inline]
    fn fetch_and(&self, mask: u64) -> u64 {
        let [low, high] = &self.0;
        u64::from(Word::fetch_and(low, (mask & LOW) as u32))
            | u64::from(Word::fetch_and(high, (mask >> 32) as u32)) << 32
    }
}

/// Bytes as little-endian 64-bit words; what does not fill a word is left out.
pub(crate) fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES >= 8 * WORDS) };
    let (chunks, _) = bytes.as_chunks::<8>();
    core::array::from_fn(|index| u64::from_le_bytes(chunks[index]))
}
