//! A real Prometheus, and what it is asked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// How often it scrapes, and evaluates the rules, s.
pub(crate) const EACH_S: u32 = 15;

/// It listens in the namespace of the bridge.
const ADDRESS: &str = "127.0.0.1:9090";

/// When each alert began to fire, s since 1970, by its node's address.
pub(crate) type Firing = BTreeMap<(Ipv4Addr, String), f64>;

/// One that runs, until the process ends.
#[derive(Debug)]
pub(crate) struct Prometheus(());

impl Prometheus {
    /// Starts it in that folder.
    pub(crate) fn start(folder: &Path, targets: &[String], rules: &str) -> io::Result<Self> {
        let each = format!("{EACH_S}s");
        // YAML reads JSON.
        let scraped = json!({"job_name": "parachron", "static_configs": [{"targets": targets}]});
        let configuration = json!({
            "global": {"scrape_interval": each, "evaluation_interval": each},
            "rule_files": ["rules.yml"],
            "scrape_configs": [scraped],
        });
        fs::write(folder.join("prometheus.yml"), configuration.to_string())?;
        fs::write(folder.join("rules.yml"), rules)?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={ADDRESS}")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(File::create(folder.join("prometheus.log"))?);
        command.spawn().map(|_| Self(()))
    }

    /// What an expression is now: the samples of each series.
    pub(crate) fn query(&self, expression: &str) -> io::Result<Vec<Value>> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let url = format!("http://{ADDRESS}/api/v1/query?query={encoded}");
        let page = exporter::pair::Client::default().page(&url, Duration::from_secs(30))?;
        let reply: Value = serde_json::from_str(&page)?;
        let series = reply["data"]["result"].as_array().cloned();
        series.ok_or_else(|| io::Error::other(reply.to_string()))
    }

    /// All alerts that have fired for a node.
    pub(crate) fn fired(&self) -> io::Result<Firing> {
        let mut firing = Firing::new();
        for series in self.query("ALERTS{alertstate=\"firing\"}[1d]")? {
            let labels = &series["metric"];
            let name = labels["alertname"].as_str().unwrap_or_default();
            let first = series["values"][0][0].as_f64();
            if let Some((node, at_s)) = node(labels).zip(first) {
                let earliest = firing.entry((node, name.to_owned())).or_insert(at_s);
                *earliest = earliest.min(at_s);
            }
        }
        Ok(firing)
    }

    /// The largest value of an expression over the nodes, and all of them.
    pub(crate) fn by_node(&self, expression: &str) -> io::Result<BTreeMap<Ipv4Addr, f64>> {
        let of = |series: &Value| {
            Some((node(&series["metric"])?, series["value"][1].as_str()?.parse().ok()?))
        };
        Ok(self.query(expression)?.iter().filter_map(of).collect())
    }
}

/// `{instance="10.9.1.7:9975"}`
fn node(labels: &Value) -> Option<Ipv4Addr> {
    labels["instance"].as_str()?.split(':').next()?.parse().ok()
}
