//! Which rows a line can be, whether it has a word about time, and whether it names another clock,
//! by one pass over its bytes: of a long log nearly no line is about clocks.

/// A scan has a bit for each row.
pub(super) const MOST_ROWS: usize = 1024;

/// What a line has signs of.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::kernel) struct Scan {
    rows: [u64; MOST_ROWS / 64],
    /// A word about time.
    pub(in crate::kernel) is_about_time: bool,
    /// A command for another clock, or a name of one.
    pub(in crate::kernel) names_other_clock: bool,
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
        self.rows.into_iter().enumerate().flat_map(|(at, mut bits)| {
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}

/// Commands for another clock, and names of one.
const OTHER_CLOCKS: [&str; 18] = [
    "get-date", "Get-Date", "wershell", "hwclock", "ssh ", "docker", "wsl", "vagrant", "kubectl",
    "exec ", "adb ", "Host", "Guest", "host:", "guest:", "RTC time", "ardware", "HW ",
];

/// No word is longer, bytes.
pub(in crate::kernel) const LONGEST_SIGN: usize = 40;

/// By which lines are searched for a row.
#[derive(Debug, Default)]
pub(super) struct RowSign {
    /// The first word of the row's form.
    pub(super) word: &'static str,
    /// What follows it in the form.
    pub(super) next: &'static str,
    /// A hole is before it, whose last letter may stand before the word.
    pub(super) is_after_hole: bool,
}

/// A word, and what it is a sign of.
#[derive(Debug, Default)]
struct Sign {
    word: String,
    /// Rows, and what follows the word in their forms.
    rows: Vec<(usize, &'static str)>,
    is_about_time: bool,
    names_other_clock: bool,
}

/// All words, by a hash of their first three bytes and of whether they stand within a word.
#[derive(Debug)]
pub(super) struct SignTable {
    /// 0 where no word begins so, or one more than the bucket's place.
    by_hash: Box<[u16; 1 << HASH_BITS]>,
    buckets: Vec<Vec<Sign>>,
}

const HASH_BITS: u32 = 15;

/// After a letter, not every word can begin.
const WITHIN_WORD: u32 = 1 << 24;

/// Of three bytes, the first of them lowest, and [`WITHIN_WORD`].
fn hash(three: u32) -> usize {
    (three.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

impl SignTable {
    /// The rows' words, and those about time, which begin in small letters or capitals.
    pub(super) fn new(rows: impl Iterator<Item = RowSign>, words: &[&str]) -> Self {
        let mut signs = Self { by_hash: Box::new([0; 1 << HASH_BITS]), buckets: Vec::new() };
        for (row, sign) in rows.enumerate() {
            if sign.is_after_hole {
                signs.entry(sign.word, WITHIN_WORD).rows.push((row, sign.next));
            }
            signs.entry(sign.word, 0).rows.push((row, sign.next));
        }
        for word in words {
            let first = word.chars().next().map_or(0, char::len_utf8);
            let capital = format!("{}{}", word[..first].to_uppercase(), &word[first..]);
            for form in [*word, &capital, &word.to_uppercase()] {
                signs.entry(form, 0).is_about_time = true;
            }
        }
        for name in OTHER_CLOCKS {
            signs.entry(name, 0).names_other_clock = true;
            signs.entry(name, WITHIN_WORD).names_other_clock = true;
        }
        signs
    }

    fn entry(&mut self, word: &str, place: u32) -> &mut Sign {
        let is_searchable = (3..=LONGEST_SIGN).contains(&word.len());
        assert!(is_searchable, "{word:?} is too short or too long to search for");
        let bytes = word.as_bytes();
        let three = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        let bucket = &mut self.by_hash[hash(three | place)];
        if *bucket == 0 {
            self.buckets.push(Vec::new());
            *bucket = self.buckets.len() as u16;
        }
        let bucket = &mut self.buckets[usize::from(*bucket) - 1];
        let at = bucket.iter().position(|sign| sign.word == word).unwrap_or(bucket.len());
        if at == bucket.len() {
            bucket.push(Sign { word: word.to_owned(), ..Sign::default() });
        }
        &mut bucket[at]
    }

    pub(super) fn scan(&self, line: &[u8]) -> Scan {
        let mut found = Scan::default();
        if let [first, second, third, ..] = line {
            self.look(u32::from_le_bytes([*first, *second, *third, 0]), line, &mut found);
        }
        for (before, four) in line.windows(4).enumerate() {
            let is_within = four[0].is_ascii_alphabetic();
            let four = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            let three = four >> 8 | if is_within { WITHIN_WORD } else { 0 };
            if self.by_hash[hash(three)] > 0 {
                self.look(three, &line[before + 1..], &mut found);
            }
        }
        found
    }

    /// Looks which words a text begins with. Most do with none: the search stays small.
    #[inline(never)]
    fn look(&self, three: u32, text: &[u8], found: &mut Scan) {
        let bucket = usize::from(self.by_hash[hash(three)]).checked_sub(1);
        for sign in bucket.map_or(&[][..], |bucket| &self.buckets[bucket]) {
            sign.scan(text, found);
        }
    }
}

impl Sign {
    fn scan(&self, text: &[u8], found: &mut Scan) {
        let Some(rest) = text.strip_prefix(self.word.as_bytes()) else { return };
        for (row, _) in self.rows.iter().filter(|(_, next)| is_start(rest, next.as_bytes())) {
            found.add_row(*row);
        }
        found.names_other_clock |= self.names_other_clock;
        let is_word = !rest.first().is_some_and(u8::is_ascii_alphabetic);
        found.is_about_time |= self.is_about_time && is_word;
    }
}

/// Whether a text goes on with a form's, or breaks off in it: one that goes on with something else
/// is none of that form. Each of the form's blanks stands for one or more.
fn is_start(mut text: &[u8], form: &[u8]) -> bool {
    for &byte in form {
        match text {
            [] => return true,
            // Blanks are of other alphabets as well.
            [first, ..] if !first.is_ascii() => return true,
            [first, rest @ ..] if *first == byte => text = rest,
            [b'\t', rest @ ..] if byte == b' ' => text = rest,
            _ => return false,
        }
        if byte == b' ' {
            text = text.trim_ascii_start();
        }
    }
    true
}
