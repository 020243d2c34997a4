//! What earlier releases had on the command line, and what does its job now.

use clap::error::{ContextKind, ContextValue};

use crate::error::CliError;

/// Commands, options and values: the release without them, and what to do.
const REMOVED: &[(&[&str], &str, &str)] = &[
    (&["clocks"], "0.2.0", "run `parachron bench --list`"),
    (&["fleet", "pair"], "0.2.0", "run `fleet-map`, a program of its own (extras/fleet-map)"),
    (&["man"], "0.2.0", "run `man parachron` where a package installed it"),
    (&["simulate"], "0.2.0", "run `cargo run -p simulator` in a checkout"),
    (
        &["--primes", "--switches", "--load-duration"],
        "0.2.0",
        "run `parachron latency`, which times UnixBench's pipes; run sysbench for primes",
    ),
    (&["--stopwatch"], "0.2.0", "name a server: `parachron drift --ntp HOST`"),
    (
        &["--keep", "--suspend"],
        "0.2.0",
        "run `cargo xtask machines --only gate-7.3 --only suspend-7.3` in a checkout",
    ),
    (&["--plain"], "0.2.0", "omit it: `parachron watch` prints lines everywhere"),
    (&["--web-config"], "0.2.0", "put nginx in front for TLS and passwords (docs/guide/fleet.md)"),
    (
        &["csv", "markdown", "tap", "junit"],
        "0.2.0",
        "add `--format json`, and let `jq` make rows of it",
    ),
];

/// The failure that explains `error`, where it is about something that was removed.
pub(crate) fn failure(error: &clap::Error) -> Option<CliError> {
    let kinds =
        [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::InvalidValue];
    let words = kinds.into_iter().filter_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    });
    words.into_iter().find_map(|word| {
        let (_, release, remedy) = REMOVED.iter().find(|(names, ..)| names.contains(&word))?;
        Some(CliError::Failed {
            cause: format!("{word} was removed in {release}"),
            remedy: (*remedy).to_owned(),
        })
    })
}
