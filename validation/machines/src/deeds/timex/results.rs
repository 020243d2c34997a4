//! validation/results/timekeeper.json: what each kernel has shown, and whether the model agrees.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::replay::{Counter, Outcome, replay};
use super::seen::{ROWS, SET};
use crate::results;
use crate::tools;

/// Writes the result from the transcripts of a folder; fails if one differs.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let cannot = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut files: Vec<_> = fs::read_dir(folder)
        .map_err(|error| cannot(folder, error))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let (mut kernels, mut differences) = (Vec::new(), Vec::new());
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| cannot(&path, error))?;
        let counter = Counter::of(&text).ok_or_else(|| format!("{}: no kernel", path.display()))?;
        let version = counter.kernel.version;
        let outcome = replay(&text, counter);
        kernels.push(kernel(&format!("{}.{}.{}", version.0, version.1, version.2), &outcome));
        differences.extend(outcome.differences);
    }
    let result = json!({
        "date": stamp::now_utc(),
        "commit": tools::commit(),
        "command": "cargo xtask machines --timekeeper FOLDER",
        "machine": stamp::machine(),
        "kernels": kernels,
    });
    results::write(&tools::root().join(results::FOLDER).join("timekeeper.json"), &result)?;
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

fn kernel(version: &str, outcome: &Outcome) -> Value {
    let seen = SET.into_iter().chain(ROWS.map(|(name, _)| name));
    let seen = seen.map(|name| (name.to_owned(), json!(outcome.seen.get(name).unwrap_or(&0))));
    json!({
        "kernel": version,
        "programs": outcome.programs,
        "delayed": outcome.delayed,
        "different": outcome.differences.len(),
        "calls": outcome.calls,
        "ticks": outcome.ticks,
        "several": outcome.several,
        "most": outcome.most,
        "exact": outcome.exact,
        "readings": outcome.readings,
        "close": outcome.close,
        "worst_us": outcome.worst_ns / 1000,
        "allowed_us": outcome.allowed_ns / 1000,
        "seen": seen.collect::<serde_json::Map<_, _>>(),
    })
}
