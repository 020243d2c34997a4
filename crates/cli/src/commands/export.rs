//! `parachron export`: this machine's clock for Prometheus.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::configuration;
use daemon::exporter::{DaemonReply, ListenAddress, Scrapes, ServedPages};
use instruments::duration;
use linux::wait::{Signals, WaitUntil, Wake};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{CliError, cannot_wait, note};
use crate::output::{self, Format};

/// Export this machine's clock metrics to Prometheus.
///
/// Prints the metrics once. --listen serves them at /metrics, with a page at /; --textfile
/// writes them for node_exporter's textfile collector, until Ctrl-C. The offset and its
/// bound, disruptions and corrections come from `parachrond`, over its status socket; without
/// it from chronyd; else the kernel's own bound is exported. Needs no root, and
/// changes no clock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the metrics at this loopback address or Unix socket, or at 127.0.0.1:9975,
    /// until Ctrl-C
    #[arg(long, value_name = "ADDRESS:PORT|/PATH", num_args = 0..=1,
          default_missing_value = "127.0.0.1:9975", group = "way")]
    listen: Option<ListenAddress>,

    /// Allow --listen at an address that other machines reach; they can read the metrics and the
    /// daemon's last log lines without TLS or a password
    #[arg(long, requires = "listen")]
    listen_anywhere: bool,

    /// Serve /metrics alone: neither the page at / nor the daemon's status at /status
    #[arg(long, requires = "listen")]
    metrics_only: bool,

    /// Write the metrics to this file at the interval of --every; its name must end with .prom
    #[arg(long, value_name = "FILE", group = "way")]
    textfile: Option<PathBuf>,

    /// Interval of --textfile, 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = every)]
    every: Duration,

    /// Name a product on this machine that depends on the clock; repeatable. Alerts about margins
    /// fire only for these products
    #[arg(long, value_name = "NAME", value_parser = consumers())]
    consumer: Vec<String>,

    /// Expect a daemon on this machine: report it as down even if it was never up
    #[arg(long)]
    daemon: bool,

    /// Status socket of the daemon, its key `status-socket`
    #[arg(long, value_name = "PATH", default_value = configuration::STATUS_SOCKET)]
    socket: PathBuf,

    /// How to print the metrics: text for Prometheus (OpenMetrics), or json
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "way")]
    format: Format,

    /// Print the dashboard for Grafana (Dashboards, New, Import) instead of the metrics, and exit
    #[arg(long, value_parser = ["dashboard"], group = "way")]
    print: Option<String>,
}

fn every(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=Duration::from_secs(86_400), "1s to 24h")
}

fn consumers() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(daemon::fleet::CONSUMERS.iter().map(|consumer| consumer.name))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    match (&args.print, &args.listen, &args.textfile) {
        (Some(_), ..) => output::text(daemon::fleet::DASHBOARD)?,
        (None, Some(address), _) => match serve(args, address)? {},
        (None, None, Some(file)) => write_each(args, file)?,
        (None, None, None) => {
            let samples = daemon::fleet::samples(&scrapes(args).snapshot());
            match args.format {
                Format::Text => output::text(&daemon::exporter::openmetrics(samples))?,
                Format::Json => output::json(&ExportReport::new(samples))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What `--format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportReport {
    /// Parachron's version.
    version: &'static str,
    /// The samples.
    samples: Vec<ExportedSample>,
}

/// A sample of a metric.
#[derive(Debug, Serialize, JsonSchema)]
struct ExportedSample {
    /// The metric's name, with its unit.
    metric: &'static str,
    /// Its labels.
    labels: BTreeMap<&'static str, String>,
    /// The value.
    value: f64,
}

impl ExportReport {
    fn new(samples: Vec<daemon::fleet::MetricSample>) -> Self {
        let exported = |sample: daemon::fleet::MetricSample| {
            let daemon::fleet::MetricSample { metric, labels, value } = sample;
            let labels = metric.labels.iter().copied().zip(labels).collect();
            ExportedSample { metric: metric.name, labels, value }
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            samples: samples.into_iter().map(exported).collect(),
        }
    }
}

fn scrapes(args: &Args) -> Scrapes {
    let (socket, is_expected) = (args.socket.clone(), args.daemon);
    let ask = move || {
        let is_expected = is_expected || socket.exists();
        let (knows, status) = daemon::metrics::ask(&socket).unzip();
        DaemonReply { knows, status, is_expected }
    };
    Scrapes::new(env!("CARGO_PKG_VERSION"), &args.consumer, ask)
}

fn serve(args: &Args, address: &ListenAddress) -> Result<Infallible, CliError> {
    let failed = |what: &str, why: std::io::Error| CliError::Failed {
        cause: format!("cannot {what} at {address}: {why}"),
        remedy: "choose another address: --listen 127.0.0.1:PORT".into(),
    };
    match (address.is_local(), args.listen_anywhere) {
        (true, _) => {}
        (false, true) => note(&address.exposure()),
        (false, false) => {
            return Err(CliError::Failed {
                cause: address.exposure(),
                remedy: "listen at 127.0.0.1:PORT behind a proxy (docs/guide/fleet.md), or add \
                         --listen-anywhere"
                    .into(),
            });
        }
    }
    let pages = if args.metrics_only { ServedPages::MetricsOnly } else { ServedPages::All };
    let listener = address.bind().map_err(|why| failed("listen", why))?;
    let scrapes = scrapes(args);
    daemon::exporter::serve(listener, pages, move || scrapes.reply())
        .map_err(|why| failed("serve", why))
}

fn write_each(args: &Args, file: &Path) -> Result<(), CliError> {
    if file.extension().is_none_or(|extension| extension != "prom") {
        return Err(CliError::Failed {
            cause: format!("node_exporter reads only *.prom files, not {}", file.display()),
            remedy: "name a .prom file in its --collector.textfile.directory".into(),
        });
    }
    let scrapes = scrapes(args);
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    loop {
        output::file(
            file,
            daemon::exporter::textfile(daemon::fleet::samples(&scrapes.snapshot())),
        )?;
        if wait.until(Instant::now() + args.every).map_err(cannot_wait)? != Wake::Deadline {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_address_follows_a_space_or_an_equals_sign_or_is_left_out() {
        let parse = |words: &[&str]| Line::try_parse_from([&["export"], words].concat());
        for (words, expected) in [
            (&["--listen", "127.0.0.1:1"][..], "127.0.0.1:1"),
            (&["--listen=[::1]:2"], "[::1]:2"),
            (&["--listen"], "127.0.0.1:9975"),
            (&["--listen", "--metrics-only"], "127.0.0.1:9975"),
        ] {
            let listen = parse(words).map(|line| line.args.listen);
            assert_eq!(listen.ok().flatten(), Some(expected.parse().unwrap()), "{words:?}");
        }
        let Err(error) = parse(&["--listen", "9975"]) else { panic!("a port alone") };
        assert!(error.to_string().contains("such as 127.0.0.1:9975"), "{error}");
    }

    #[test]
    fn the_tables_of_the_guide_are_those_of_the_program() {
        let mut metrics = String::from("metric\tlabels\tmeaning\n");
        for metric in daemon::fleet::METRICS {
            metrics += &format!("{}\t{}\t{}\n", metric.name, metric.labels.join(", "), metric.help);
        }
        let mut consumers = String::from("consumer\tlimit, s\teffect beyond the limit\tsource\n");
        for daemon::fleet::Consumer { name, limit_s, beyond, source, .. } in
            daemon::fleet::CONSUMERS
        {
            consumers += &format!("{name}\t{limit_s}\t{beyond}\t{source}\n");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (file, table) in [("metrics.tsv", metrics), ("consumers.tsv", consumers)] {
            let written = std::fs::read_to_string(folder.join(file)).unwrap();
            assert_eq!(written, table, "docs/reference/{file}");
        }
    }
}
