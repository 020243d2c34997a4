//! When replies left, for those who ask for it in their next request.

use std::hash::{BuildHasher, RandomState};

/// Replies share so many places; 64 KB.
const PLACES: usize = 4096;

/// When each reply was sent, by the arrival of its request. A place has the newest: who finds
/// another's there is replied to as one who did not ask.
#[derive(Debug)]
pub(crate) struct Departures {
    places: Box<[(u64, i64)]>,
    hash: RandomState,
}

impl Default for Departures {
    fn default() -> Self {
        Self { places: vec![(0, 0); PLACES].into(), hash: RandomState::new() }
    }
}

impl Departures {
    /// The reply to the request that arrived then was sent at `sent_ns`.
    pub(crate) fn put(&mut self, arrival: u64, sent_ns: i64) {
        let place = self.place(arrival);
        self.places[place] = (arrival, sent_ns);
    }

    /// When that was, and forgets it: a request that is repeated learns nothing.
    pub(crate) fn take(&mut self, arrival: u64) -> Option<i64> {
        let place = self.place(arrival);
        let (is_of, sent_ns) = self.places[place];
        (arrival != 0 && is_of == arrival).then(|| {
            self.places[place] = (0, 0);
            sent_ns
        })
    }

    fn place(&self, arrival: u64) -> usize {
        self.hash.hash_one(arrival) as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_few_are_lost() {
        let mut departures = Departures::default();
        assert_eq!(departures.take(0), None);
        (1..=400).for_each(|arrival| departures.put(arrival, -(arrival as i64)));
        let told: Vec<u64> =
            (1..=400).filter(|it| departures.take(*it) == Some(-(*it as i64))).collect();
        // Of 400 in 4,096 places some 20 lose theirs.
        assert!((330..=400).contains(&told.len()), "{}", told.len());
        assert!((1..=400).all(|arrival| departures.take(arrival).is_none()));
    }
}
