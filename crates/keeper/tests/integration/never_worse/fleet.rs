//! Which sources there are, and which of them lie.

use keeper::SourceKind;

use super::random::Random;
use crate::model::{S, Source};

/// The faces of one host, and servers: by voice.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) sources: Vec<Source>,
    /// Indices of the sources of each voice.
    pub(crate) voices: Vec<Vec<usize>>,
    /// How many of the voices lie: the first ones.
    pub(crate) liars: usize,
}

impl Fleet {
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut fleet = Self { sources: Vec::new(), voices: Vec::new(), liars: 0 };
        if !random.one_in(4) {
            let faces = [
                (SourceKind::VmClock, 100 + random.below(100_000)),
                (SourceKind::Phc, 100 + random.below(100_000)),
                (SourceKind::Rtc, S / 2),
            ];
            let mut voice = Vec::new();
            for (kind, bound_ns) in faces {
                if random.one_in(2) {
                    voice.push(fleet.sources.len());
                    fleet.sources.push(Source::honest(kind, bound_ns));
                }
            }
            fleet.voices.extend((!voice.is_empty()).then_some(voice));
        }
        let servers = random.below(5) + u64::from(fleet.voices.is_empty());
        for _ in 0..servers {
            fleet.voices.push(vec![fleet.sources.len()]);
            let bound_ns = 10_000 + random.below(20_000_000);
            fleet.sources.push(Source::honest(SourceKind::Ntp, bound_ns));
        }
        // The host is among the liars half of the time.
        if random.one_in(2) {
            fleet.voices.reverse();
        }
        fleet.have_liars(random);
        fleet
    }

    /// Of any kinds: the host by any of its faces, its word and its RTC included, network
    /// cards, servers.
    pub(crate) fn of_all_kinds(random: &mut Random) -> Self {
        let mut fleet = Self { sources: Vec::new(), voices: Vec::new(), liars: 0 };
        let told_ns = if random.one_in(3) { S } else { 10_000 + random.below(20_000_000) };
        let faces = [
            (SourceKind::VmClock, 100 + random.below(100_000)),
            (SourceKind::Phc, 100 + random.below(100_000)),
            (SourceKind::HostValue, told_ns),
            (SourceKind::Rtc, S / 2),
        ];
        let faces = faces.into_iter().filter(|_| random.one_in(2)).collect::<Vec<_>>();
        let of_host = fleet.add(&faces);
        fleet.voices.extend((!of_host.is_empty()).then_some(of_host));
        for _ in 0..random.below(3) {
            let card = fleet.add(&[(SourceKind::NetworkCard, 100 + random.below(100_000))]);
            fleet.voices.push(card);
        }
        for _ in 0..random.below(4) + u64::from(fleet.voices.is_empty()) {
            let server = fleet.add(&[(SourceKind::Ntp, 10_000 + random.below(20_000_000))]);
            fleet.voices.push(server);
        }
        let first = random.below(fleet.voices.len() as u64) as usize;
        fleet.voices.rotate_left(first);
        fleet.have_liars(random);
        fleet
    }

    /// The sources of one voice.
    fn add(&mut self, sources: &[(SourceKind, u64)]) -> Vec<usize> {
        let first = self.sources.len();
        self.sources.extend(sources.iter().map(|&(kind, bound)| Source::honest(kind, bound)));
        (first..self.sources.len()).collect()
    }

    fn have_liars(&mut self, random: &mut Random) {
        self.liars = random.below((self.voices.len() as u64).div_ceil(2)) as usize;
    }

    pub(crate) fn lying(&self) -> impl Iterator<Item = usize> {
        self.voices.iter().take(self.liars).flatten().copied()
    }

    pub(crate) fn is_right(&self, index: usize) -> bool {
        self.lying().all(|lying| lying != index)
    }

    /// How far off the clock may be once all are reached: a falseticker that agrees with
    /// one of the right is within twice its bound. The host speaks by its best clock; an
    /// RTC shows no time.
    pub(crate) fn bound_ns(&self) -> u64 {
        let speaker = |voice: &Vec<usize>| {
            let of_voice = voice.iter().map(|&index| self.sources[index]);
            of_voice.filter(|one| one.kind != SourceKind::Rtc).min_by_key(|one| one.kind)
        };
        let right = self.voices.iter().skip(self.liars).filter_map(speaker);
        right.map(|source| 2 * source.bound_ns).max().unwrap_or(0)
    }
}
