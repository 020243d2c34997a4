//! What earlier releases had on the command line, and what does its job now.

use clap::error::{ContextKind, ContextValue};

use crate::error::CliError;

/// Commands, options and values: the command that had them, and what to do.
const REMOVED: &[(&[&str], &str, &str)] = &[
    (&["clocks"], "", "run `parachron bench --list`"),
    (&["fleet", "pair"], "", "run `fleet-map` (extras/fleet-map)"),
    (
        &["man"],
        "",
        "run `man parachron` of a package, or `cargo run -p parachron --example man DIR`",
    ),
    (&["simulate"], "", "run `cargo run -p simulator` in a checkout"),
    (
        &["--primes", "--switches", "--load-duration"],
        "bench",
        "run `parachron latency`, which times UnixBench's pipes; run sysbench for primes",
    ),
    (&["--stopwatch"], "drift", "name a server: `parachron drift --ntp HOST`"),
    (&["--only"], "lab", "name the experiments: `parachron lab offset drift`"),
    (&["--plot"], "lab", "add `--format json`"),
    (&["linux"], "lab", "run `cargo xtask machines --only linux-on-provider` in a checkout"),
    (&["--plot"], "latency", "add `--format json`, or compare two runs with --compare"),
    (
        &["--keep", "--suspend"],
        "lab",
        "run `cargo xtask machines --only gate-7.3 --only suspend-7.3` in a checkout",
    ),
    (&["--plain"], "watch", "omit it: `parachron watch` prints lines everywhere"),
    (&["--web-config"], "", "put nginx in front for TLS and passwords (docs/guide/fleet.md)"),
    (&["tables", "rules"], "", "read docs/guide/fleet.md; the alerts are packaging/alerts.yml"),
    (&["dear-exits"], "", "name the rule expensive-exits"),
    (&["csv", "markdown", "tap", "junit"], "", "add `--format json`, and let `jq` make rows of it"),
];

/// The failure that explains `error`, where it is about something that was removed.
pub(crate) fn failure(error: &clap::Error) -> Option<CliError> {
    let kinds =
        [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::InvalidValue];
    let usage = error.get(ContextKind::Usage).map_or(String::new(), ToString::to_string);
    kinds.into_iter().find_map(|kind| {
        let Some(ContextValue::String(word)) = error.get(kind) else { return None };
        let (.., remedy) = REMOVED.iter().find(|(names, command, _)| {
            names.contains(&word.as_str()) && usage.contains(command)
        })?;
        Some(CliError::Failed {
            cause: format!("{word} was removed after 0.1.0"),
            remedy: (*remedy).to_owned(),
        })
    })
}
