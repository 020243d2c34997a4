//! `fleet-map map`: which clocks are off, and which nodes contradict the others.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fleet_map::errormap::{Map, Settings, solve};
use instruments::duration;
use schemars::generate::SchemaSettings;

use super::{gather, html, text};
use crate::error::{CommandError, note};
use crate::output::{self, Format};

/// Find clocks that are off, and nodes that contradict the others, without a reference.
///
/// Reads the samples of `fleet-map pair` from files, exporters or a Prometheus, and bounds
/// each clock relative to the median of all. Assumes that a packet takes some time, that a
/// clock's rate is off by at most --drift-ppm, and that answers which nothing contradicts are
/// true. Exit code 1: a clock is off, or samples contradict each other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files written by `fleet-map pair --out`; repeatable
    #[arg(long, value_name = "FILE", num_args = 1..,
          required_unless_present_any = ["from", "prometheus"])]
    peers: Vec<PathBuf>,

    /// An exporter's page, such as http://10.0.0.7:9100/metrics; repeatable
    #[arg(long, value_name = "URL", num_args = 1..)]
    from: Vec<String>,

    /// A Prometheus that scrapes the exporters, such as http://prometheus:9090;
    /// repeatable
    #[arg(long, value_name = "URL", num_args = 1..)]
    prometheus: Vec<String>,

    /// Greatest error of a clock's rate
    #[arg(long, value_name = "PPM", default_value_t = 15.0, value_parser = drift_ppm)]
    drift_ppm: f64,

    /// Ignore samples that are older than the pair's newest by more than this, 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = window)]
    window: Duration,

    /// Report a clock that is certainly further from the median than this, 1ns to 1h
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = tolerance)]
    tolerance: Duration,

    /// Also write a self-contained page for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn drift_ppm(text: &str) -> Result<f64, String> {
    let ppm = text.parse().ok().filter(|ppm| (0.0..=100_000.0).contains(ppm));
    ppm.ok_or_else(|| format!("expected 0 to 100000, found {text:?}"))
}

fn window(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_secs(1)..=Duration::from_secs(86_400), "1s to 24h")
}

fn tolerance(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::from_nanos(1)..=Duration::from_secs(3600), "1ns to 1h")
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let samples = gather::samples(&gather::SampleSources {
        files: &args.peers,
        exporters: &args.from,
        prometheus: &args.prometheus,
    })?;
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let settings = Settings {
        drift_ppm: args.drift_ppm,
        window_ns: ns(args.window),
        tolerance_ns: ns(args.tolerance),
        ..Settings::default()
    };
    let map = solve(&samples, &settings);
    let now_ns = i64::try_from(linux::clock::pair()?.realtime_ns).unwrap_or(i64::MAX);
    let ago_ns = now_ns.saturating_sub(map.as_of_ns);
    if ago_ns > settings.window_ns {
        let ago = instruments::figures::time(ago_ns as f64);
        note(&format!("the newest samples are {ago} old, older than --window"));
    }
    // If the page fails the map is still printed.
    let written = args
        .html
        .as_ref()
        .map_or(Ok(()), |path| html::page(&map).and_then(|page| output::file(path, page)));
    match args.format {
        Format::Json => output::json(&map)?,
        Format::Text => output::text(&text::render(&map, now_ns))?,
    }
    written?;
    Ok(if map.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the schema of the JSON.
pub(crate) fn schema() -> Result<ExitCode, CommandError> {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    output::json(&generator.into_root_schema_for::<Map>())?;
    Ok(ExitCode::SUCCESS)
}
