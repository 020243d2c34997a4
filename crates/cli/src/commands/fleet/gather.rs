//! Samples from files and exporters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Error};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

use exporter::pair::{self, Tally};
use fleet::errormap::Samples;

use crate::error::{CliError, note};

/// For each exporter.
const TIMEOUT: Duration = Duration::from_secs(5);
/// So many are asked at a time: one that is dead holds up none of the others.
const AT_A_TIME: usize = 64;

/// All of them; who does not reply is named and left out.
pub(super) fn samples(files: &[PathBuf], urls: &[String]) -> Result<Samples, CliError> {
    let mut samples = Samples::default();
    let mut taken = 0;
    for file in files {
        let tally = of_file(file, &mut samples)?;
        taken += told(&file.display().to_string(), &tally);
    }
    let mut named = BTreeSet::new();
    // In the order given: the first page that speaks for a node does.
    for (place, page) in pages(urls) {
        let url = &urls[place];
        match page {
            Ok(page) => taken += told(url, &pair::add_page(&page, &mut samples, &mut named)),
            Err(error) => note(&format!("{url} is left out: {error}")),
        }
    }
    if taken > 0 {
        return Ok(samples);
    }
    Err(CliError::Failed {
        cause: "there is no sample of any pair".into(),
        remedy: "parachron pair --help, which makes them".into(),
    })
}

/// What each replied, by its place.
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
                    let _ = send.send((place, pair::get(url, TIMEOUT)));
                }
            });
        }
    });
    drop(send);
    pages.into_iter().collect()
}

fn of_file(path: &Path, samples: &mut Samples) -> Result<Tally, CliError> {
    let read = File::open(path).and_then(|file| pair::read(BufReader::new(file), samples));
    read.map_err(|error| CliError::Failed {
        cause: format!("cannot read {}: {error}", path.display()),
        remedy: "a file that `parachron pair --out` writes".into(),
    })
}

/// What was taken; says what was not.
fn told(of: &str, tally: &Tally) -> u64 {
    if let Some(why) = &tally.why {
        note(&format!(
            "{of}: {} of {} left out: {why}",
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
