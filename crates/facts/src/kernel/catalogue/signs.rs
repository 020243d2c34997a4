//! Which rows a line can be, and whether it has a word about time, by one pass over its bytes: of
//! a long log nearly no line is about clocks.

/// A scan has a bit for each row.
pub(super) const MOST_ROWS: usize = 1024;

/// What a line has signs of.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::kernel) struct Scan {
    rows: [u64; MOST_ROWS / 64],
    /// A word about time.
    pub(in crate::kernel) is_about_time: bool,
}

impl Scan {
    /// Whether any row may fit.
    pub(in crate::kernel) fn has_rows(&self) -> bool {
        self.rows != [0; MOST_ROWS / 64]
    }

    fn add_row(&mut self, row: usize) {
        self.rows[row / 64] |= 1 << (row % 64);
    }

    pub(in crate::kernel) fn rows(self) -> impl Iterator<Item = usize> {
        (0..MOST_ROWS).filter(move |row| (self.rows[row / 64] >> (row % 64)) & 1 == 1)
    }
}

/// What a word is a sign of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meaning {
    Row(usize),
    AboutTime,
}

/// All words, by a hash of their first three bytes.
#[derive(Debug)]
pub(super) struct SignTable {
    /// 0 where no word begins so, or one more than the bucket's place.
    buckets_by_hash: Box<[u16; 1 << HASH_BITS]>,
    buckets: Vec<Vec<(String, Meaning)>>,
}

const HASH_BITS: u32 = 15;

fn hash(three: &[u8]) -> usize {
    let number = u32::from_le_bytes([three[0], three[1], three[2], 0]);
    (number.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

impl SignTable {
    /// The rows' words, and those about time, which begin in small letters or capitals.
    pub(super) fn new<'s>(rows: impl Iterator<Item = &'s str>, words: &[&str]) -> Self {
        let mut signs =
            Self { buckets_by_hash: Box::new([0; 1 << HASH_BITS]), buckets: Vec::new() };
        for (row, sign) in rows.enumerate() {
            signs.add(sign.to_owned(), Meaning::Row(row));
        }
        for word in words {
            let first = word.chars().next().map_or(0, char::len_utf8);
            let capital = format!("{}{}", word[..first].to_uppercase(), &word[first..]);
            for form in [(*word).to_owned(), capital, word.to_uppercase()] {
                signs.add(form, Meaning::AboutTime);
            }
        }
        signs
    }

    fn add(&mut self, word: String, meaning: Meaning) {
        debug_assert!(word.len() >= 3, "{word:?} is too short to search for");
        let at = hash(word.as_bytes());
        let bucket = match usize::from(self.buckets_by_hash[at]) {
            0 => {
                self.buckets.push(Vec::new());
                self.buckets_by_hash[at] = self.buckets.len() as u16;
                self.buckets.len() - 1
            }
            n => n - 1,
        };
        self.buckets[bucket].push((word, meaning));
    }

    pub(super) fn scan(&self, line: &[u8]) -> Scan {
        let mut found = Scan::default();
        for at in 0..line.len().saturating_sub(2) {
            let bucket = self.buckets_by_hash[hash(&line[at..at + 3])];
            if bucket == 0 {
                continue;
            }
            for (word, meaning) in &self.buckets[usize::from(bucket) - 1] {
                if !line[at..].starts_with(word.as_bytes()) {
                    continue;
                }
                match meaning {
                    Meaning::Row(row) => found.add_row(*row),
                    Meaning::AboutTime => {
                        let is_letter =
                            |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
                        let before = at.checked_sub(1).and_then(|at| line.get(at));
                        let is_word = !is_letter(before) && !is_letter(line.get(at + word.len()));
                        found.is_about_time |= is_word;
                    }
                }
            }
        }
        found
    }
}
