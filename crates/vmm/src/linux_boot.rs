//! A stock Linux kernel in guest memory, as its boot protocol asks (Linux:
//! Documentation/arch/x86/boot.rst, "64-bit Boot Protocol" and "The Linux/x86
//! Boot Protocol"; zero-page.rst).
//!
//! There is no firmware and no PCI. Memory is in the zero page; the processors, the
//! interrupt controller and the timers are in ACPI's tables.

mod acpi;
mod hypercalls;

use std::fmt;
use std::io::Cursor;
use std::sync::Arc;

use guest::layout;
use linux_loader::loader::bootparam::{XLF_KERNEL_64, boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::{Elf, KernelLoader as _};
use vm_memory::{ByteValued as _, GuestAddress};

use crate::error::MachineError;
use crate::kvm::EntryPoint;
use crate::memory::GuestRam;

pub(crate) use hypercalls::HypercallPage;

/// The ACPI tables.
pub(crate) fn write_acpi(ram: &GuestRam, vcpus: usize, has_rtc: bool) -> Result<(), MachineError> {
    let tables = acpi::tables(vcpus, has_rtc);
    tables.iter().try_for_each(|(address, bytes)| ram.write(*address, bytes))
}

/// The zero page.
const ZERO_PAGE: u64 = 0x7000;
const COMMAND_LINE: u64 = 0x2_0000;
/// Of a kernel without a header: arch/x86/include/asm/setup.h, COMMAND_LINE_SIZE.
const COMMAND_LINE_BYTES: u32 = 2047;
/// The end of base memory.
const BASE_END: u64 = 0x9_fc00;
const HIGH: u64 = 0x10_0000;
/// The largest memory below the addresses of the interrupt controllers.
pub(crate) const MEMORY_MAX: u64 = 0xc000_0000;
const PAGE: u64 = 0x1000;
/// The entry of the 64-bit protocol, behind the start of the loaded kernel.
const ENTRY_64: u64 = 0x200;
const ELF: &[u8] = b"\x7fELF";
/// boot.rst, `type_of_loader`: not one of the list.
const OTHER_LOADER: u8 = 0xff;
/// `boot_flag` and `header`, for a kernel without a header.
const BOOT_FLAG: u16 = 0xaa55;
const HEADER: u32 = u32::from_le_bytes(*b"HdrS");
const E820_RAM: u32 = 1;
const E820_RESERVED: u32 = 2;

/// What a machine boots in place of the lab's own guest.
#[derive(Clone, PartialEq, Eq)]
pub struct LinuxImage {
    /// A bzImage, or an uncompressed vmlinux, which an emulated CPU boots sooner.
    pub kernel: Arc<[u8]>,
    /// The initramfs.
    pub initrd: Option<Arc<[u8]>>,
    /// The kernel's parameters.
    pub command_line: String,
}

impl fmt::Debug for LinuxImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let initrd = self.initrd.as_ref().map_or(0, |bytes| bytes.len());
        let (kernel, line) = (self.kernel.len(), &self.command_line);
        write!(f, "LinuxImage({kernel} bytes, initrd {initrd} bytes, {line:?})")
    }
}

/// Writes all that the kernel needs; returns where the boot vCPU enters it.
pub(crate) fn load(ram: &GuestRam, image: &LinuxImage) -> Result<EntryPoint, MachineError> {
    if ram.size() > MEMORY_MAX {
        return Err(MachineError::Image(format!(
            "{} bytes of memory requested; at most {MEMORY_MAX} fit below the interrupt controllers",
            ram.size()
        )));
    }
    let kernel = KernelImage::load(ram, &image.kernel)?;
    let mut header = kernel.header;
    header.type_of_loader = OTHER_LOADER;
    let line = image.command_line.as_bytes();
    let most = header.cmdline_size;
    if line.len() > most as usize || line.contains(&0) {
        let found = line.len();
        return Err(MachineError::Image(format!(
            "the command line has {found} bytes; the kernel takes at most {most}, none of them 0"
        )));
    }
    ram.write(COMMAND_LINE, &[line, &[0]].concat())?;
    header.cmd_line_ptr = COMMAND_LINE as u32;
    if let Some(initrd) = &image.initrd {
        let at = initrd_address(ram.size(), &kernel, initrd.len() as u64)?;
        ram.write(at, initrd)?;
        (header.ramdisk_image, header.ramdisk_size) = (at as u32, initrd.len() as u32);
    }
    let mut params = boot_params { hdr: header, ..Default::default() };
    let map = memory_map(ram.size());
    params.e820_entries = map.len() as u8;
    params.e820_table[..map.len()].copy_from_slice(&map);
    ram.write(ZERO_PAGE, params.as_slice())?;
    Ok(EntryPoint { rip: kernel.entry, rsi: ZERO_PAGE })
}

/// A kernel in memory.
struct KernelImage {
    entry: u64,
    /// What it needs until it knows its memory ends here.
    end: u64,
    header: setup_header,
}

impl KernelImage {
    fn load(ram: &GuestRam, image: &[u8]) -> Result<Self, MachineError> {
        let wrong = |why: String| MachineError::Image(format!("the kernel: {why}"));
        if image.starts_with(ELF) {
            let loaded = Elf::load(ram.map(), None, &mut Cursor::new(image), None)
                .map_err(|error| wrong(error.to_string()))?;
            let header = setup_header {
                boot_flag: BOOT_FLAG,
                header: HEADER,
                cmdline_size: COMMAND_LINE_BYTES,
                initrd_addr_max: u32::MAX,
                ..Default::default()
            };
            return Ok(Self { entry: loaded.kernel_load.0, end: loaded.kernel_end, header });
        }
        let short = || wrong("it is too short for a header".to_owned());
        let header = image.get(0x1f1..).ok_or_else(short)?;
        let mut read = setup_header::default();
        let bytes = header.get(..size_of::<setup_header>()).ok_or_else(short)?;
        read.as_mut_slice().copy_from_slice(bytes);
        // XLF_KERNEL_64 came with version 2.12.
        if read.version < 0x20c || read.xloadflags & XLF_KERNEL_64 == 0 {
            return Err(wrong("it has no 64-bit entry point (boot protocol 2.12)".to_owned()));
        }
        let (start, needed) = (read.pref_address, read.init_size);
        let end = start.checked_add(needed.into()).filter(|end| *end <= ram.size());
        let end = end.ok_or_else(|| {
            wrong(format!("{needed} bytes at {start:#x} do not fit into {} bytes", ram.size()))
        })?;
        let loaded =
            BzImage::load(ram.map(), Some(GuestAddress(start)), &mut Cursor::new(image), None)
                .map_err(|error| wrong(error.to_string()))?;
        let header = loaded.setup_header.ok_or_else(short)?;
        Ok(Self { entry: start + ENTRY_64, end, header })
    }
}

/// As high as the kernel takes it.
fn initrd_address(memory: u64, kernel: &KernelImage, bytes: u64) -> Result<u64, MachineError> {
    let most = memory.min(u64::from(kernel.header.initrd_addr_max).saturating_add(1));
    let at = most.checked_sub(bytes).map(|at| at & !(PAGE - 1)).filter(|at| *at >= kernel.end);
    at.ok_or_else(|| {
        let end = kernel.end;
        MachineError::Image(format!(
            "an initrd of {bytes} bytes does not fit between {end:#x} and {most:#x}"
        ))
    })
}

/// Memory as the kernel may use it: not that in which this process keeps what it
/// shares with the lab's own guest, where it refuses clock pages.
fn memory_map(memory: u64) -> [boot_e820_entry; 5] {
    let ranges = [
        (0, BASE_END, E820_RAM),
        (BASE_END, HIGH, E820_RESERVED),
        (HIGH, layout::SHARED, E820_RAM),
        (layout::SHARED, layout::PAGES, E820_RESERVED),
        (layout::PAGES, memory, E820_RAM),
    ];
    ranges.map(|(addr, end, r#type)| boot_e820_entry { addr, size: end - addr, r#type })
}

#[cfg(test)]
mod tests;
