//! What KVM counts of a vCPU: its binary statistics (Linux: Documentation/virt/kvm/api.rst,
//! KVM_GET_STATS_FD; 5.14).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// More than any KVM has.
const COUNTS_MAX: usize = 1024;
const NAME_MAX: usize = 256;
/// `struct kvm_stats_header`, and `struct kvm_stats_desc` before its name.
const HEADER: usize = 24;
const DESCRIPTION: usize = 16;

/// A vCPU's counts by their names: `exits`, `halt_exits`, `irq_injections`.
pub type Counts = BTreeMap<String, u64>;

/// All counts of one word; `None` where the file is not one of statistics.
pub(crate) fn read(file: &File) -> Option<Counts> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let word = |index: usize| u32_at(&header, 4 * index);
    let (name, number) = (word(1) as usize, word(2) as usize);
    if name > NAME_MAX || number > COUNTS_MAX {
        return None;
    }
    let mut descriptions = vec![0; number * (DESCRIPTION + name)];
    file.read_exact_at(&mut descriptions, word(4).into()).ok()?;
    let mut counts = Counts::new();
    for one in descriptions.chunks_exact(DESCRIPTION + name) {
        let (size, offset) = (u16::from_le_bytes([one[6], one[7]]), u32_at(one, 8));
        // Histograms have more words.
        if size == 1 {
            let mut value = [0; 8];
            file.read_exact_at(&mut value, u64::from(word(5)) + u64::from(offset)).ok()?;
            let name = one[DESCRIPTION..].split(|byte| *byte == 0).next().unwrap_or_default();
            counts.insert(String::from_utf8_lossy(name).into_owned(), u64::from_le_bytes(value));
        }
    }
    Some(counts)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_none_of_statistics_has_no_counts() {
        let of = |path| read(&File::open(path).unwrap());
        assert_eq!(of("/dev/null"), None);
        assert_eq!(of("/dev/zero"), Some(Counts::new()));
    }
}
