//! What fired, beside what was to fire; and what daemons cost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::cost::Cost;
use crate::faults::{FAULTS, Fault, Faulty, OF_THE_MACHINE};
use crate::node::Kind;
use crate::prometheus::{Firing, Prometheus};

/// Of a scrape, CPU.
const SCRAPE_MS: f64 = 5.0;
/// Of a daemon that serves its metrics.
const DAEMON_MIB: f64 = 10.0;

/// What fired in the nodes of each fault.
pub(crate) struct Verdict {
    rows: Vec<Row>,
    /// Rules about the machine, with how many nodes they fired for.
    of_the_machine: BTreeMap<String, usize>,
}

struct Row {
    fault: &'static Fault,
    /// For each alert after how long, s, of each node.
    fired: BTreeMap<String, Vec<f64>>,
    wrong: Vec<String>,
}

impl Verdict {
    /// By what had fired before the faults, and at the end.
    pub(crate) fn of(nodes: &[Faulty], early: &Firing, all: &Firing, since_s: f64) -> Self {
        let mut rows: Vec<Row> = FAULTS.iter().map(Row::new).collect();
        let mut of_the_machine = BTreeMap::new();
        let of_node = |firing: &Firing, address: Ipv4Addr| -> BTreeMap<String, f64> {
            let is_its = firing.iter().filter(|((node, _), _)| *node == address);
            is_its.map(|((_, name), at_s)| (name.clone(), *at_s)).collect()
        };
        for Faulty { fault, node } in nodes {
            let Some(row) = rows.iter_mut().find(|row| row.fault.what == fault.what) else {
                continue;
            };
            let mut fired = of_node(all, node.address());
            for name in OF_THE_MACHINE.iter().filter(|name| fired.remove(**name).is_some()) {
                *of_the_machine.entry((*name).to_owned()).or_default() += 1;
            }
            let names: BTreeSet<&str> = fired.keys().map(String::as_str).collect();
            let expected = BTreeSet::from_iter(row.fault.expected.iter().copied());
            let mut put = |how: &str, name: &str| {
                row.wrong.push(format!("{how}: {name} at {} ({})", node.address(), row.fault.what));
            };
            names.difference(&expected).for_each(|name| put("not expected", name));
            expected.difference(&names).for_each(|name| put("did not fire", name));
            let early = of_node(early, node.address());
            let early = early.keys().filter(|name| !OF_THE_MACHINE.contains(&name.as_str()));
            early.for_each(|name| put("before any fault", name));
            for (name, at_s) in fired {
                row.fired.entry(name).or_default().push(at_s - since_s);
            }
        }
        Self { rows, of_the_machine }
    }

    pub(crate) fn wrong(&self) -> Vec<String> {
        self.rows.iter().flat_map(|row| row.wrong.clone()).collect()
    }

    /// As data.
    pub(crate) fn result(&self, minutes: u64) -> Value {
        let row = |row: &Row| {
            let fired = row.fired.iter().map(|(name, after_s)| {
                let of = |pick: fn(f64, f64) -> f64| after_s.iter().copied().reduce(pick);
                let times = json!({
                    "nodes": after_s.len(), "first_s": of(f64::min), "last_s": of(f64::max),
                });
                (name.clone(), times)
            });
            json!({
                "fault": row.fault.what,
                "nodes": row.fault.nodes,
                "fired": fired.collect::<Map<_, _>>(),
            })
        };
        json!({
            "daemons": self.rows.iter().map(|row| row.fault.nodes).sum::<usize>(),
            "minutes": minutes,
            "faults": self.rows.iter().map(row).collect::<Vec<_>>(),
            "of_the_machine": self.of_the_machine,
        })
    }
}

impl Row {
    const fn new(fault: &'static Fault) -> Self {
        Self { fault, fired: BTreeMap::new(), wrong: Vec::new() }
    }
}

/// What a scrape and a daemon cost.
pub(crate) struct Costs {
    /// A scrape, CPU, ms: what the scraped daemons had more than the one that was not.
    scrape_ms: f64,
    scrapes: f64,
    most_mib: f64,
    /// Beside slow clients: the longest scrape, and how many succeeded, of 1.
    slow_s: f64,
    slow_share: f64,
}

impl Costs {
    /// By what each daemon had cost before and after; the last is not scraped.
    pub(crate) fn of(
        nodes: &[Faulty],
        (before, after): (&[Option<Cost>], &[Option<Cost>]),
        scrapes: f64,
        prometheus: &Prometheus,
    ) -> io::Result<Self> {
        let spent = |at: usize| Some(after[at]?.cpu_ms - before[at]?.cpu_ms);
        let healthy = nodes.iter().filter(|faulty| faulty.fault.what == FAULTS[0].what);
        let healthy: Vec<f64> = healthy.filter_map(|faulty| spent(faulty.node.index)).collect();
        let mean_ms = healthy.iter().sum::<f64>() / healthy.len() as f64;
        let alone_ms = spent(nodes.len()).ok_or_else(|| io::Error::other("a daemon has ended"))?;
        let serves = nodes.iter().filter(|faulty| faulty.node.kind != Kind::ExporterBeside);
        let most_mib = serves.filter_map(|faulty| Some(after[faulty.node.index]?.most_mib));
        let slow = nodes.iter().find(|faulty| faulty.fault.what.starts_with("1,000"));
        let of_slow = |expression: &str| -> io::Result<f64> {
            let by_node = prometheus.by_node(expression)?;
            let value = slow.and_then(|faulty| by_node.get(&faulty.node.address()));
            value.copied().ok_or_else(|| io::Error::other(format!("no {expression}")))
        };
        let slow_s = of_slow("max_over_time(scrape_duration_seconds[1d])")?;
        let slow_share = of_slow("avg_over_time(up[1d])")?;
        Ok(Self {
            scrape_ms: (mean_ms - alone_ms) / scrapes,
            scrapes,
            most_mib: most_mib.fold(0.0, f64::max),
            slow_s,
            slow_share,
        })
    }

    pub(crate) fn result(&self) -> Value {
        json!({
            "scrape_ms": self.scrape_ms,
            "scrapes": self.scrapes,
            "most_mib": self.most_mib,
            "slow_clients_share": self.slow_share,
            "slow_clients_longest_s": self.slow_s,
        })
    }

    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        hold(self.scrape_ms <= SCRAPE_MS, "a scrape takes too much CPU");
        hold(self.most_mib <= DAEMON_MIB, "a daemon takes too much memory");
        hold(self.slow_share == 1.0, "slow clients held up scrapes");
        wrong
    }
}
