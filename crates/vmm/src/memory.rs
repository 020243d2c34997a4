//! The guest's memory.
//!
//! # Invariants
//! 1. The mapping lives as long as [`GuestRam`], and vm-memory has checked
//!    that a slice lies wholly inside it.
//! 2. This process accesses memory that the guest shares only by atomic words of
//!    one size for each address: [`SharedArea`] at its own address, by 64-bit
//!    words, and all else as pages of 32-bit words ([`host::pages`]). A page that
//!    reaches into the shared area, where a guest may ask for one, is refused.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use guest::layout::{self, GuestPages};
use guest::protocol::SharedArea;
use host::{ClockMemory, Misplaced};
use linux_loader::loader::{Elf, KernelLoader};
use pvclock::shared::{self, Page, Split};
use vm_memory::{GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

use crate::error::MachineError;

/// Memory from guest address 0 on, zeroed, allocated by the host on first use.
#[derive(Debug)]
pub struct GuestRam {
    map: GuestMemoryMmap,
    size: u64,
}

impl GuestRam {
    /// What is saved or not, at once.
    const PAGE: usize = 4096;

    /// `size` bytes.
    ///
    /// # Errors
    /// Too little for the guest, or more than the host maps.
    pub fn new(size: u64) -> Result<Self, MachineError> {
        if size < layout::MEMORY_MIN {
            return Err(MachineError::TooLittleMemory { size, least: layout::MEMORY_MIN });
        }
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let map = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)])
            .map_err(|error| MachineError::Memory { size, error: error.to_string() })?;
        Ok(Self { map, size })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Loads an ELF and returns its entry address.
    ///
    /// # Errors
    /// It is not an ELF, or does not fit.
    pub fn load(&self, image: &[u8]) -> Result<u64, MachineError> {
        let loaded = Elf::load(&self.map, None, &mut std::io::Cursor::new(image), None)
            .map_err(|error| MachineError::Image(error.to_string()))?;
        Ok(loaded.kernel_load.0)
    }

    /// For KVM, and loaders of kernels.
    pub(crate) fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }

    /// Writes bytes, before the vCPUs start.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MachineError> {
        use vm_memory::Bytes as _;
        self.map
            .write_slice(bytes, GuestAddress(address))
            .map_err(|error| MachineError::Image(error.to_string()))
    }

    /// Its pages that are not all zeros: the address of each run of them, and its bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn runs(&self) -> Result<Vec<(u64, Vec<u8>)>, MachineError> {
        use vm_memory::Bytes as _;
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut page = [0; Self::PAGE];
        for address in (0..self.size).step_by(Self::PAGE) {
            let bytes = &mut page[..Self::PAGE.min((self.size - address) as usize)];
            self.map.read_slice(bytes, GuestAddress(address)).map_err(|error| {
                MachineError::Memory { size: self.size, error: error.to_string() }
            })?;
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == address => {
                    run.extend_from_slice(bytes);
                }
                _ => runs.push((address, bytes.to_vec())),
            }
        }
        Ok(runs)
    }

    /// A copy of all of it.
    #[cfg(test)]
    pub(crate) fn copy(&self) -> Result<Vec<u8>, MachineError> {
        use vm_memory::Bytes as _;
        let mut bytes = vec![0; usize::try_from(self.size).unwrap_or(usize::MAX)];
        self.map
            .read_slice(&mut bytes, GuestAddress(0))
            .map_err(|error| MachineError::Memory { size: self.size, error: error.to_string() })?;
        Ok(bytes)
    }

    /// An aligned 32-bit word; none where there is no memory, or the shared area.
    pub fn word(&self, address: u64) -> Option<u32> {
        Some(self.atomic(address)?.load(Ordering::Relaxed))
    }

    /// Writes aligned 32-bit words, while vCPUs run; none are written unless all are there,
    /// and outside of the shared area.
    pub(crate) fn set_words(&self, address: u64, words: &[u32]) -> Option<()> {
        let at = |index: usize| self.atomic(address.checked_add(index as u64 * 4)?);
        let places: Vec<&AtomicU32> = (0..words.len()).map(at).collect::<Option<_>>()?;
        places.iter().zip(words).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        Some(())
    }

    fn atomic(&self, address: u64) -> Option<&AtomicU32> {
        let at = self.pointer(address, size_of::<AtomicU32>())?;
        if is_shared(address, size_of::<AtomicU32>()) || !address.is_multiple_of(4) {
            return None;
        }
        // SAFETY: inside the mapping (invariant 1), which is page aligned, so that it is
        // aligned as its address is; a word of the one size (invariant 2).
        Some(unsafe { &*at.cast() })
    }

    /// The area that guest and host share.
    pub fn shared(&self) -> &SharedArea {
        let at = self.pointer(layout::SHARED, size_of::<SharedArea>());
        let at = at.expect("the minimum size has room for it");
        // SAFETY: inside the mapping (invariant 1), 4096-byte aligned in a
        // mapping that is page aligned, atomics only (invariant 2).
        unsafe { &*at.cast() }
    }

    /// The clock pages at the guest's addresses.
    pub fn pages(&self) -> &GuestPages<Split> {
        let at = self.pointer(layout::PAGES, size_of::<GuestPages>());
        let at = at.expect("the minimum size has room for it");
        // SAFETY: as in `shared`.
        unsafe { &*at.cast() }
    }

    fn pointer(&self, address: u64, length: usize) -> Option<*mut u8> {
        let slice = self.map.get_slice(GuestAddress(address), length).ok()?;
        Some(slice.ptr_guard_mut().as_ptr())
    }
}

/// Whether bytes of the memory reach into the area of 64-bit words.
fn is_shared(address: u64, length: usize) -> bool {
    let shared = layout::SHARED..layout::SHARED + size_of::<SharedArea>() as u64;
    address < shared.end && shared.start < address + length as u64
}

impl ClockMemory for GuestRam {
    fn page<P: Page>(&self, address: host::ClockAddress) -> Result<&P, Misplaced> {
        let (address, length) = (address.0, size_of::<P>());
        let outside = Misplaced::Outside { address, length };
        let at = self.pointer(address, length).ok_or(outside)?;
        if is_shared(address, length) {
            return Err(outside);
        }
        // SAFETY: inside the mapping (invariant 1), atomics of one size
        // (invariant 2); alignment is checked by it.
        unsafe { shared::page_at(at) }
            .map_err(|_| Misplaced::Unaligned { address, alignment: align_of::<P>() })
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{self, Layout};

    use super::*;
    use host::pages::TimePage;
    use pvclock::kvm_clock::{TimeReader, TimeUpdate, TimeWriter};

    #[test]
    fn pages_are_inside_or_refused() {
        let ram = GuestRam::new(layout::MEMORY_MIN).unwrap();
        let page = |address| ram.page::<TimePage>(host::ClockAddress(address));
        assert!(page(0).is_ok());
        assert!(page(layout::MEMORY_MIN - 32).is_ok());
        for address in [layout::MEMORY_MIN - 31, layout::MEMORY_MIN, u64::MAX, u64::MAX - 31] {
            assert!(
                matches!(page(address), Err(Misplaced::Outside { .. })),
                "{address:#x}: {:?}",
                page(address)
            );
        }
        let shared_end = layout::SHARED + size_of::<SharedArea>() as u64;
        for (address, is_ok) in [
            (layout::SHARED - 32, true),
            (layout::SHARED - 28, false),
            (layout::SHARED + 4, false),
            (shared_end - 4, false),
            (shared_end, true),
        ] {
            assert_eq!(page(address).is_ok(), is_ok, "{address:#x}");
        }
        assert!(matches!(page(2), Err(Misplaced::Unaligned { address: 2, alignment: 4 })));
    }

    #[test]
    fn words_are_written_outside_of_the_shared_area_alone() {
        let aligned = page_aligned();
        let ram = &aligned.ram;
        assert_eq!(ram.set_words(0x3000, &[1, 2]), Some(()));
        assert_eq!([0x3000, 0x3004, 0x3008].map(|at| ram.word(at)), [Some(1), Some(2), Some(0)]);
        let (begins, ends) = (layout::SHARED, layout::MEMORY_MIN);
        for address in [begins, begins - 4, ends, ends - 4, 0x3002, u64::MAX - 3] {
            assert_eq!(ram.set_words(address, &[7, 7]), None, "{address:#x}");
        }
        assert_eq!((ram.word(begins - 4), ram.word(begins)), (Some(0), None));
    }

    /// As `GuestRam::new` maps it; vm-memory under Miri gives memory of a lesser alignment.
    fn page_aligned() -> Aligned {
        if !cfg!(miri) {
            return Aligned { ram: GuestRam::new(layout::MEMORY_MIN).unwrap(), _pages: None };
        }
        let (size, bytes) = (layout::MEMORY_MIN, layout::MEMORY_MIN as usize);
        let pages = Pages::new(Layout::from_size_align(bytes, GuestRam::PAGE).unwrap());
        // SAFETY: the memory is of this size, and freed after the region (see `Aligned`).
        let region = unsafe { vm_memory::MmapRegion::build_raw(pages.at, bytes, 3, 0x22) }.unwrap();
        let region = vm_memory::GuestRegionMmap::new(region, GuestAddress(0)).unwrap();
        let map = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        Aligned { ram: GuestRam { map, size }, _pages: Some(pages) }
    }

    /// Fields are dropped in their order: the region, which does not own its memory, before it.
    struct Aligned {
        ram: GuestRam,
        _pages: Option<Pages>,
    }

    struct Pages {
        at: *mut u8,
        shape: Layout,
    }

    impl Pages {
        fn new(shape: Layout) -> Self {
            assert_ne!(shape.size(), 0);
            // SAFETY: the size is not 0.
            let at = unsafe { alloc::alloc_zeroed(shape) };
            assert!(!at.is_null(), "no memory of {shape:?}");
            Self { at, shape }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: of `alloc_zeroed` with this layout, in `new` alone, and freed here alone.
            unsafe { alloc::dealloc(self.at, self.shape) }
        }
    }

    /// Under Miri: accesses of two sizes that race are undefined behaviour.
    #[test]
    fn one_page_is_read_and_written_by_two_threads_whatever_they_take_it_for() {
        let aligned = page_aligned();
        let ram = &aligned.ram;
        let page: &TimePage = ram.page(host::ClockAddress(GuestPages::time_address(0))).unwrap();
        let read = || TimeReader::new(&ram.pages().vcpus[0].time).info();
        let scale = pvclock::Scale::from_hertz(pvclock::Hertz(1_000_000_000)).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for time in 0..50 {
                    let system_time = pvclock::Nanos(time);
                    let update =
                        TimeUpdate { tsc_timestamp: time, system_time, scale, stable: true };
                    TimeWriter::new(page).write(&update);
                }
            });
            for _ in 0..50 {
                let info = read().unwrap();
                assert_eq!(info.tsc_timestamp, info.system_time.0, "a whole");
            }
        });
        assert_eq!(read().unwrap().tsc_timestamp, 49);
    }

    #[test]
    fn the_image_is_loaded_below_the_shared_area() {
        let ram = GuestRam::new(layout::MEMORY_MIN).unwrap();
        let entry = ram.load(crate::GUEST).unwrap();
        assert!((layout::IMAGE..layout::IMAGE_END).contains(&entry), "{entry:#x}");
        assert!(ram.load(b"no image").is_err());
        assert!(GuestRam::new(4096).is_err());
    }
}
