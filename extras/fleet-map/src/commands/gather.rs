//! Samples from files and exporters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Error};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

use fleet_map::errormap::Samples;
use fleet_map::pair::{self, SampleTally, scrape};

use crate::error::{CommandError, note};

/// For each exporter.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For a Prometheus, whose page of 10,000 nodes has some 40 MB.
const FEDERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// So many are asked at a time: one that is dead holds up none of the others.
const AT_A_TIME: usize = 64;

/// Where samples come from.
pub(super) struct SampleSources<'a> {
    /// Files of JSON lines.
    pub(super) files: &'a [PathBuf],
    /// Pages of exporters.
    pub(super) exporters: &'a [String],
    /// Prometheus servers.
    pub(super) prometheus: &'a [String],
}

/// The samples of all sources; one that does not reply is named and left out.
pub(super) fn samples(sources: &SampleSources<'_>) -> Result<Samples, CommandError> {
    let mut samples = Samples::default();
    let mut taken = 0;
    for file in sources.files {
        let tally = read(file, &mut samples)?;
        taken += report(&file.display().to_string(), &tally);
    }
    let mut named = BTreeSet::new();
    // In the order given: the first page that describes a node counts.
    for (place, page) in pages(sources.exporters) {
        let url = &sources.exporters[place];
        match page {
            Ok(page) => taken += report(url, &pair::add_page(&page, &mut samples, &mut named)),
            Err(error) => note(&format!("{url} is left out: {error}")),
        }
    }
    for url in sources.prometheus {
        match scrape::federated(url, FEDERATION_TIMEOUT) {
            Ok(page) => taken += report(url, &pair::add_federated(&page, &mut samples, &mut named)),
            Err(error) => note(&format!("{url} is left out: {error}")),
        }
    }
    if taken > 0 {
        return Ok(samples);
    }
    Err(CommandError::Failed {
        cause: "found no sample of any pair".into(),
        remedy: "run `fleet-map pair` on each node; see `fleet-map pair --help`".into(),
    })
}

/// Each reply, by its place in the list.
fn pages(urls: &[String]) -> BTreeMap<usize, Result<String, Error>> {
    let next = AtomicUsize::new(0);
    let (send, pages) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(urls.len()) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                while let Some((place, url)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|it| Some((it, urls.get(it)?)))
                {
                    // The other end lasts as long as the threads do.
                    let _ = send.send((place, scrape::page(url, TIMEOUT)));
                }
            });
        }
    });
    drop(send);
    pages.into_iter().collect()
}

fn read(path: &Path, samples: &mut Samples) -> Result<SampleTally, CommandError> {
    let read = File::open(path).and_then(|file| pair::read(BufReader::new(file), samples));
    read.map_err(|error| CommandError::Failed {
        cause: format!("cannot read {}: {error}", path.display()),
        remedy: "name a file that `fleet-map pair --out FILE` wrote".into(),
    })
}

/// The number of samples taken; notes how many were not.
fn report(source: &str, tally: &SampleTally) -> u64 {
    if let Some(why) = &tally.why {
        note(&format!(
            "{source}: {} of {} samples left out: {why}",
            tally.refused,
            tally.refused + tally.taken
        ));
    }
    tally.taken
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    /// Forty that take a connection and say nothing, before as many that reply.
    #[test]
    fn dead_exporters_hold_up_none() {
        let dead = TcpListener::bind("127.0.0.1:0").unwrap();
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = |it: &TcpListener| format!("http://{}/metrics", it.local_addr().unwrap());
        let urls = [vec![url(&dead); 40], vec![url(&alive); 40]].concat();
        std::thread::spawn(move || {
            for mut stream in alive.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nup 1\n");
            }
        });
        let begun = Instant::now();
        let pages = pages(&urls);
        // In turns of sixteen it were three times the timeout.
        assert!(begun.elapsed() < 2 * TIMEOUT, "{:?}", begun.elapsed());
        let replied: Vec<usize> =
            pages.iter().filter(|it| it.1.is_ok()).map(|(place, _)| *place).collect();
        assert_eq!(replied, (40..80).collect::<Vec<_>>());
    }
}
