use super::*;

const MEMORY: u64 = 64 << 20;

/// A header of protocol 2.12 with a 64-bit entry, of `needed` bytes at 16 MiB, and one
/// sector of kernel.
fn kernel(needed: u32) -> Vec<u8> {
    let mut image = vec![0; 3 * 512];
    image[0x1f1] = 1;
    for (at, bytes) in [
        (0x1fe, &0xaa55u16.to_le_bytes()[..]),
        (0x202, b"HdrS"),
        (0x206, &0x20cu16.to_le_bytes()),
        (0x211, &[1]),
        (0x22c, &0x7fff_ffffu32.to_le_bytes()),
        (0x236, &1u16.to_le_bytes()),
        (0x238, &100u32.to_le_bytes()),
        (0x258, &0x100_0000u64.to_le_bytes()),
        (0x260, &needed.to_le_bytes()),
    ] {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }
    image[1024..].fill(0x90);
    image
}

fn image(kernel: Vec<u8>, initrd: usize, line: &str) -> LinuxImage {
    let initrd = (initrd > 0).then(|| vec![7; initrd].into());
    LinuxImage { kernel: kernel.into(), initrd, command_line: line.to_owned() }
}

fn loaded(image: &LinuxImage) -> Result<(EntryPoint, Vec<u8>), String> {
    let ram = GuestRam::new(MEMORY).unwrap();
    let entry = load(&ram, image).map_err(|error| error.to_string())?;
    Ok((entry, ram.copy().unwrap()))
}

#[test]
fn the_kernel_finds_what_boot_rst_says() {
    let (entry, ram) = loaded(&image(kernel(0x20_0000), 5000, "console=ttyS0")).unwrap();
    assert_eq!((entry.rip, entry.rsi), (0x100_0200, 0x7000));
    assert_eq!(ram[0x100_0000..0x100_0200], [0x90; 512]);
    let zero_page = &ram[0x7000..0x8000];
    let word = |at: usize| u32::from_le_bytes(zero_page[at..at + 4].try_into().unwrap());
    assert_eq!((zero_page[0x210], &zero_page[0x202..0x206]), (0xff, &b"HdrS"[..]));
    let line = word(0x228) as usize;
    assert_eq!(&ram[line..line + 14], b"console=ttyS0\0");
    let initrd = word(0x218) as usize;
    assert_eq!((initrd % 4096, word(0x21c)), (0, 5000));
    assert_eq!(ram[initrd..initrd + 5000], [7; 5000]);
    // All of memory, each byte in one entry.
    assert_eq!(zero_page[0x1e8], 5);
    let entries = zero_page[0x2d0..].chunks(20).take(5);
    let ends = entries.scan(0u64, |end, entry| {
        let [start, size] =
            [0, 8].map(|at| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap()));
        assert_eq!(start, *end);
        *end += size;
        Some(*end)
    });
    assert_eq!(ends.last(), Some(MEMORY));
}

#[test]
fn what_cannot_boot_is_refused_with_the_reason() {
    let old = |at: usize, bytes: [u8; 2]| {
        let mut kernel = kernel(4096);
        kernel[at..at + 2].copy_from_slice(&bytes);
        kernel
    };
    for (kernel, initrd, line, reason) in [
        (Vec::new(), 0, "", "too short for a header"),
        (vec![0; 4096], 0, "", "no 64-bit entry point"),
        (old(0x206, [0x0b, 2]), 0, "", "no 64-bit entry point"),
        (old(0x202, *b"xx"), 0, "", "the kernel: "),
        (b"\x7fELF, cut".to_vec(), 0, "", "the kernel: "),
        (kernel(u32::MAX), 0, "", "do not fit into 67108864 bytes"),
        (kernel(4096), MEMORY as usize, "", "an initrd of 67108864 bytes does not fit"),
        (kernel(4096), 0, &"x".repeat(101) as &str, "takes at most 100"),
        (kernel(4096), 0, "a\0b", "none of them 0"),
    ] {
        let why = loaded(&image(kernel, initrd, line)).unwrap_err();
        assert!(why.contains(reason), "{reason:?}: {why}");
    }
}
