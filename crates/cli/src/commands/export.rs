//! `parachron export`: this machine's clock for Prometheus.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::configuration;
use exporter::{Access, Answer, Pages, Scrapes};
use instruments::duration;
use linux::wait::{Signals, Wait, Wake};

use crate::error::{CliError, cannot_wait};
use crate::output;

/// Show this machine's clock to Prometheus.
///
/// Prints the metrics once; with --listen serves them at /metrics, and a page at /; with
/// --textfile writes them for node_exporter's textfile collector, until Ctrl-C.
/// What `parachrond` knows is asked at its status socket: the measured offset with
/// its bound, disruptions, corrections. Without it, chronyd is asked, and else the
/// kernel's own bound is shown. No root, and no clock is touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the metrics here; Ctrl-C ends it
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:9975", group = "way")]
    listen: Option<SocketAddr>,

    /// Require TLS and passwords as in this file: the web configuration that
    /// node_exporter takes as --web.config.file
    #[arg(long, value_name = "FILE", requires = "listen")]
    web_config: Option<PathBuf>,

    /// Serve /metrics alone: neither the page at / nor the daemon's status at /status
    #[arg(long, requires = "listen")]
    metrics_only: bool,

    /// Write them into this file, which ends with .prom, again and again
    #[arg(long, value_name = "FILE", group = "way")]
    textfile: Option<PathBuf>,

    /// How often with --textfile, 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = every)]
    every: Duration,

    /// Something that trusts this clock runs here; repeatable. Alerts of margins
    /// are about these
    #[arg(long, value_name = "NAME", value_parser = consumers())]
    consumer: Vec<String>,

    /// A daemon is to run here: it is missed though it was never seen
    #[arg(long)]
    daemon: bool,

    /// The daemon's socket: its `status-socket`
    #[arg(long, value_name = "PATH", default_value = configuration::STATUS_SOCKET)]
    socket: PathBuf,

    /// Print something else than the metrics, and exit
    #[arg(long, value_enum, group = "way")]
    print: Option<Printed>,
}

/// What is printed instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Printed {
    /// Alert and recording rules for Prometheus
    Rules,
    /// The dashboard for Grafana: Dashboards, New, Import
    Dashboard,
    /// The metrics, and those that trust a clock with their limits
    Tables,
}

fn every(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=Duration::from_secs(86_400), "1s to 24h")
}

fn consumers() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(fleet::CONSUMERS.iter().map(|consumer| consumer.name))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    match (args.print, args.listen, &args.textfile) {
        (Some(Printed::Rules), ..) => output::text(&fleet::rules())?,
        (Some(Printed::Dashboard), ..) => output::text(fleet::DASHBOARD)?,
        (Some(Printed::Tables), ..) => output::text(&tables())?,
        (None, Some(address), _) => match serve(args, address)? {},
        (None, None, Some(file)) => write_each(args, file)?,
        (None, None, None) => {
            output::text(&exporter::openmetrics(fleet::samples(&scrapes(args).one())))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scrapes(args: &Args) -> Scrapes {
    let (socket, is_expected) = (args.socket.clone(), args.daemon);
    let ask = move || {
        let is_expected = is_expected || socket.exists();
        let (knows, status) = daemon::metrics::ask(&socket).unzip();
        Answer { knows, status, is_expected }
    };
    Scrapes::new(env!("CARGO_PKG_VERSION"), &args.consumer, ask)
}

fn serve(args: &Args, address: SocketAddr) -> Result<Infallible, CliError> {
    let failed = |what: &str, why: std::io::Error| CliError::Failed {
        cause: format!("cannot {what} at {address}: {why}"),
        remedy: "choose another address: --listen 127.0.0.1:PORT".into(),
    };
    let access = match &args.web_config {
        None => Access::everyone(),
        Some(path) => Access::from_file(path).map_err(|why| CliError::Failed {
            cause: why.to_string(),
            remedy: "fix the file named by --web-config".into(),
        })?,
    };
    let pages = if args.metrics_only { Pages::MetricsOnly } else { Pages::All };
    let listener = TcpListener::bind(address).map_err(|why| failed("listen", why))?;
    let scrapes = scrapes(args);
    exporter::serve(listener, access, pages, move || scrapes.told())
        .map_err(|why| failed("serve", why))
}

fn write_each(args: &Args, file: &Path) -> Result<(), CliError> {
    if file.extension().is_none_or(|extension| extension != "prom") {
        return Err(CliError::Failed {
            cause: format!("node_exporter does not read {}", file.display()),
            remedy: "a name that ends with .prom, in its --collector.textfile.directory".into(),
        });
    }
    let scrapes = scrapes(args);
    let wait = Wait::new(Signals::ending().map_err(cannot_wait)?);
    loop {
        output::file(file, exporter::textfile(fleet::samples(&scrapes.one())))?;
        if wait.until(Instant::now() + args.every).map_err(cannot_wait)? != Wake::Deadline {
            return Ok(());
        }
    }
}

/// Both tables, as the guide has them.
fn tables() -> String {
    let mut text = String::from("| metric | labels | says |\n| --- | --- | --- |\n");
    for metric in fleet::METRICS {
        let labels = metric.labels.join(", ");
        text += &format!("| `{}` | {labels} | {} |\n", metric.name, metric.help);
    }
    text += "\n| consumer | limit, s | beyond it | source |\n| --- | ---: | --- | --- |\n";
    for it in fleet::CONSUMERS {
        text += &format!("| {} | {} | {} | {} |\n", it.name, it.limit_s, it.beyond, it.source);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_both_tables_and_each_alert() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/fleet.md");
        let guide = std::fs::read_to_string(path).unwrap();
        for table in tables().split("\n\n") {
            assert!(guide.contains(table.trim()), "docs/guide/fleet.md lacks\n{table}");
        }
        for alert in fleet::ALERTS {
            assert!(guide.contains(&format!("\n### {}\n", alert.name)), "{}", alert.name);
        }
    }
}
