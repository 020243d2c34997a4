//! Reading and writing ClockBound's segments.

use super::page::{Layout, MAGIC, SegmentBound, SegmentPage, WORDS};
use crate::sequence::{self, DEFAULT_TRIES, Marking};
use crate::shared::{Aligned, Memory, Word};
use crate::{PageError, ReadError};

/// The generation, in the upper half of the word that has the layout in its
/// lower: odd while the daemon writes, 0 before its first update.
enum OddGeneration {}

const LAYOUT: u32 = 0xffff;

impl Marking for OddGeneration {
    #[inline(always)]
    fn is_whole(before: u32, after: u32) -> bool {
        before == after && before >> 16 & 1 == 0 && !Self::is_off(before)
    }

    #[inline(always)]
    fn is_off(version: u32) -> bool {
        version >> 16 == 0
    }

    /// A segment found odd (its daemon was killed) goes from odd to odd. After
    /// 0xffff comes 2: 0 would mean that nothing was written.
    fn next(version: u32) -> (u32, u32) {
        let (layout, generation) = (version & LAYOUT, (version >> 16) as u16);
        let mark = (generation | 1).wrapping_add(2 * (generation & 1));
        let next = if mark == u16::MAX { 2 } else { mark + 1 };
        (layout | u32::from(mark) << 16, layout | u32::from(next) << 16)
    }
}

/// Reads a segment.
#[derive(Debug, Clone, Copy)]
pub struct SegmentReader<'p, M: Memory = Aligned> {
    page: &'p SegmentPage<M>,
    layout: Layout,
    tries: u32,
}

impl<'p, M: Memory> SegmentReader<'p, M> {
    /// A reader of `page`.
    ///
    /// # Errors
    /// The page is none, or of a layout that this crate does not know.
    pub fn new(page: &'p SegmentPage<M>) -> Result<Self, PageError> {
        for (word, expected) in page.magic.iter().zip(MAGIC) {
            let found = word.load();
            if found != expected {
                return Err(PageError::Magic { found });
            }
        }
        let found = page.version.load() & LAYOUT;
        let layout = Layout::ALL.into_iter().find(|layout| layout.version() == found);
        let layout = layout.ok_or(PageError::LayoutVersion { found: found as u16 })?;
        let (found, needed) = (page.size.load(), layout.bytes());
        if found < needed {
            return Err(PageError::Size { found, needed });
        }
        Ok(Self { page, layout, tries: DEFAULT_TRIES })
    }

    /// Gives up after `tries` tries instead of [`DEFAULT_TRIES`].
    #[must_use]
    pub const fn with_tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// Its layout.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The contents as one whole.
    ///
    /// # Errors
    /// [`ReadError::NeverFinished`], [`ReadError::SwitchedOff`] before the
    /// daemon's first update, [`ReadError::Malformed`] where no daemon can have meant it.
    pub fn read(&self) -> Result<SegmentBound, ReadError> {
        let Self { page, layout, tries } = *self;
        let (version, words): (u32, [u64; WORDS]) =
            sequence::read::<M, OddGeneration, _>(&page.version, tries, || {
                core::array::from_fn(|index| page.words[index].load())
            })?;
        if version & LAYOUT != layout.version() {
            return Err(ReadError::SwitchedOff { version });
        }
        SegmentBound::from_words(layout, &words).map_err(ReadError::Malformed)
    }
}

/// Writes a segment. There must be but one writer a segment.
#[derive(Debug)]
pub struct SegmentWriter<'p, M: Memory = Aligned> {
    page: &'p SegmentPage<M>,
    layout: Layout,
}

impl<'p, M: Memory> SegmentWriter<'p, M> {
    /// A writer of a page made by [`SegmentPage::new`] or [`Layout::new_file`],
    /// whatever state its generation was left in.
    pub const fn new(page: &'p SegmentPage<M>, layout: Layout) -> Self {
        Self { page, layout }
    }

    /// The generation that the page has now: another than [`Self::write`]
    /// returned means another writer.
    pub fn generation(&self) -> u16 {
        (self.page.version.load() >> 16) as u16
    }

    /// Writes all that changes; returns the new generation.
    pub fn write(&mut self, bound: &SegmentBound) -> u16 {
        let (page, words) = (self.page, bound.to_words(self.layout));
        // The layout is ours to state, whatever was there.
        let found = page.version.load() & !LAYOUT | self.layout.version();
        let version = sequence::write::<M, OddGeneration>(&page.version, found, || {
            let used = (self.layout.bytes() as usize - 16) / 8;
            page.words[..used].iter().zip(words).for_each(|(to, word)| to.store(word));
        });
        (version >> 16) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clockbound::SegmentStatus;

    const LAYOUT_2: Layout = Layout::SystemClock;

    #[test]
    fn the_generation_skips_what_means_unwritten() {
        for (found, mark, next) in
            [(0, 1, 2), (2, 3, 4), (3, 5, 6), (0xfffe, 0xffff, 2), (0xffff, 1, 2)]
        {
            let of = |generation: u32| generation << 16 | 0x0303;
            assert_eq!(OddGeneration::next(of(found)), (of(mark), of(next)), "{found}");
        }
    }

    #[test]
    fn a_segment_is_off_until_it_is_written_and_says_what_it_is() {
        let page: SegmentPage = SegmentPage::new(LAYOUT_2);
        let reader = SegmentReader::new(&page).unwrap();
        assert_eq!(reader.read(), Err(ReadError::SwitchedOff { version: 2 }));
        let mut writer = SegmentWriter::new(&page, LAYOUT_2);
        let bound = SegmentBound { status: SegmentStatus::Disrupted, ..SegmentBound::UNKNOWN };
        assert_eq!((writer.write(&bound), writer.generation()), (2, 2));
        assert_eq!((reader.read(), reader.layout()), (Ok(bound), LAYOUT_2));
        // A daemon that was killed while it wrote.
        Word::store(&page.version, 5 << 16 | 2);
        let torn = reader.with_tries(3).read();
        assert_eq!(torn, Err(ReadError::NeverFinished { version: 5 << 16 | 2, tries: 3 }));
        // The next one.
        assert_eq!(writer.write(&bound), 8);
        // Another layout took its place.
        Word::store(&page.version, 8 << 16 | 1);
        assert_eq!(reader.read(), Err(ReadError::SwitchedOff { version: 8 << 16 | 1 }));
    }

    #[test]
    fn other_memory_is_no_segment() {
        let page: SegmentPage = SegmentPage::new(LAYOUT_2);
        Word::store(&page.size, 79);
        let short = PageError::Size { found: 79, needed: 80 };
        assert_eq!(SegmentReader::new(&page).unwrap_err(), short);
        Word::store(&page.version, 4);
        let unknown = PageError::LayoutVersion { found: 4 };
        assert_eq!(SegmentReader::new(&page).unwrap_err(), unknown);
        Word::store(&page.magic[1], 7);
        assert_eq!(SegmentReader::new(&page).unwrap_err(), PageError::Magic { found: 7 });
    }
}
