//! Words of memory for loom: what a model of a reader and a writer runs on.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use pvclock::shared::{Memory, Word, sealed::Sealed};

/// Memory whose every access loom interleaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Modelled {}

#[derive(Debug)]
pub(crate) struct Loom<A>(A);

impl Sealed for Modelled {}

impl<A> Sealed for Loom<A> {}

impl Memory for Modelled {
    type U32 = Loom<AtomicU32>;
    type U64 = Loom<AtomicU64>;

    fn fence_acquire() {
        fence(Ordering::Acquire);
    }

    fn fence_release() {
        fence(Ordering::Release);
    }

    fn pause() {
        loom::thread::yield_now();
    }
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for Loom<$atomic> {
            fn new(value: $value) -> Self {
                Self(<$atomic>::new(value))
            }

            fn load(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }

            fn store(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }

            fn fetch_and(&self, mask: $value) -> $value {
                self.0.fetch_and(mask, Ordering::Relaxed)
            }
        }
    };
}
word!(AtomicU32, u32);
word!(AtomicU64, u64);
