//! Samples from files and exporters.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use errormap::Samples;
use pair::Tally;

use crate::error::{CliError, note};

/// For each exporter.
const TIMEOUT: Duration = Duration::from_secs(5);
/// So many are asked at a time.
const AT_A_TIME: usize = 16;

/// All of them; who does not reply is named and left out.
pub(super) fn samples(files: &[PathBuf], urls: &[String]) -> Result<Samples, CliError> {
    let mut samples = Samples::default();
    let mut taken = 0;
    for file in files {
        let tally = of_file(file, &mut samples)?;
        taken += told(&file.display().to_string(), &tally);
    }
    for urls in urls.chunks(AT_A_TIME) {
        let pages: Vec<_> = std::thread::scope(|scope| {
            let ask = |url: &'_ String| {
                let url = url.clone();
                scope.spawn(move || pair::get(&url, TIMEOUT))
            };
            let asked: Vec<_> = urls.iter().map(ask).collect();
            asked.into_iter().map(|one| one.join()).collect()
        });
        for (url, page) in urls.iter().zip(pages) {
            match page {
                Ok(Ok(page)) => taken += told(url, &pair::take(&page, &mut samples)),
                Ok(Err(error)) => note(&format!("{url} is left out: {error}")),
                Err(_) => note(&format!("{url} is left out")),
            }
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
