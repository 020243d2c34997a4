//! The runs, in the order of `cargo xtask long`.

use std::process::Command;

use crate::project::Project;

/// A run: cargo's arguments, with an environment.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(super) what: &'static str,
    environment: &'static [(&'static str, &'static str)],
    cargo: &'static str,
}

impl Run {
    pub(super) fn command(&self, project: &Project) -> Command {
        let mut command = project.cargo();
        command.args(self.cargo.split(' ')).envs(self.environment.iter().copied());
        command
    }

    /// The command as a person types it.
    pub(super) fn line(&self) -> String {
        let set = self.environment.iter().map(|(name, value)| format!("{name}={value} "));
        format!("{}cargo {}", set.collect::<String>(), self.cargo)
    }
}

const fn run(name: &'static str, what: &'static str, cargo: &'static str) -> Run {
    Run { name, what, environment: &[], cargo }
}

pub(crate) const RUNS: &[Run] = &[
    Run {
        environment: &[("PARACHRON_LONG", "1")],
        ..run(
            "tests",
            "All tests, with the large numbers of cases",
            "test --workspace --no-fail-fast",
        )
    },
    Run {
        environment: &[("PARACHRON_LONG", "1")],
        ..run(
            "histories",
            "A million histories in which the keeper must make no clock worse",
            "test --release -p parachron-keeper --test integration never_worse",
        )
    },
    Run {
        environment: &[("PARACHRON_LONG", "1")],
        ..run(
            "gate-restores",
            "A hundred thousand simulated restores behind the gate, and as many that it sees late",
            "test --release -p parachron-keeper --test integration gate",
        )
    },
    Run {
        environment: &[("PARACHRON_LONG", "1")],
        ..run(
            "gate-kills",
            "A thousand kills of the daemon or its watcher, after which nothing is frozen",
            "test --release -p parachron-daemon --test gate",
        )
    },
    run("lab", "All experiments of the lab", "run --release -p parachron -- lab"),
    run(
        "lab-verdicts",
        "The lab twenty times, half of them beside two busy threads",
        "run --release -p e2e --bin lab-verdicts",
    ),
    run("machines", "Every machine under QEMU, every command", "xtask machines --record"),
    run(
        "gate-machines",
        "A thousand restores of a machine with a gated program",
        "xtask machines --record --only gate-7.3 --restores 1000",
    ),
    run(
        "linux",
        "Stock kernels on the lab's providers: booted, moved, booted again, kept and watched",
        "xtask machines --record --only linux-on-provider --only linux-moved \
         --only linux-moved-5.10 --only linux-moved-6.12 --only linux-again --only linux-kept \
         --only linux-silent",
    ),
    run(
        "calm",
        "Ten calm minutes of every machine, a hundred intervals of drift",
        "xtask machines --long --record",
    ),
    run("arm64", "The tests for arm64, under QEMU's user mode", "xtask arm64"),
    run("miri", "Tests in an interpreter that detects undefined behaviour", "xtask miri"),
    run("fuzz", "Each fuzz target for a minute", "xtask fuzz --seconds 60"),
    run("page", "The pages, in node and in a browser", "xtask page --check"),
    run("queries", "The shipped questions on 10^8 rows", "xtask queries --rows 100000000"),
    run(
        "alert-rules",
        "Alert rules on 10^5 simulated machine-days",
        "xtask alerts --simulated --runs 900 --into validation/results/alerts.json",
    ),
    run(
        "alerts",
        "A real Prometheus that scrapes 50 daemons",
        "xtask alerts --into validation/results/prometheus.json",
    ),
    run("release", "A release, made twice and compared", "xtask release --twice"),
    run("bench-read", "A clock read beside the peers'", "xtask bench read"),
    run("bench-host", "A page update and an entry by a host", "xtask bench host"),
    run("bench-clock", "The clock for programs", "xtask bench clock"),
    run("bench-doctor", "doctor as a whole process", "xtask bench doctor"),
    run("bench-watch", "The CPU time of watch", "xtask bench watch"),
    run("bench-latency", "The cost of latency", "xtask bench latency"),
    run(
        "bench-cyclictest",
        "Wake-ups beside cyclictest's",
        "xtask bench latency --beside cyclictest",
    ),
    run(
        "causes",
        "Causes of lateness, forced",
        "run --release -p e2e --bin latency-causes -- --tries 200 --into docs/validation",
    ),
    run(
        "causes-machines",
        "Causes of lateness that only a machine of its own can force",
        "xtask machines --record --only latency-7.2 --only latency-no-highres-7.2 \
         --only latency-kvm-7.2",
    ),
    run("bench-pipes", "What moves the index of pipe-based context switching", "xtask bench pipes"),
    run("bench-simulate", "Simulated guest-days a minute", "xtask bench simulate"),
    run(
        "bench-regression",
        "The simulator's regression beside chronyd, under clknetsim",
        "xtask bench regression",
    ),
    run(
        "faults",
        "A million simulated faults of every kind, through which the keeper's promises hold",
        "run --release -p parachron -- simulate every-fault --guests 10600 --seed 7",
    ),
    run("manifests", "Manifests by their schemas, the Ansible role twice", "xtask manifests"),
    Run {
        environment: &[("RUSTUP_TOOLCHAIN", "1.88")],
        ..run("oldest-rust", "The oldest Rust that builds it", "check --workspace --locked")
    },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The rows of machines that a run names.
    fn named_rows(run: &Run) -> Vec<&str> {
        let words: Vec<&str> = run.cargo.split(' ').collect();
        words.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1]).collect()
    }

    #[test]
    fn runs_of_machines_keep_their_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let table = fs::read_to_string(root.join("validation/machines/machines.toml")).unwrap();
        let table: toml::Table = table.parse().unwrap();
        let rows = table["row"].as_array().unwrap();
        let names = |of: &dyn Fn(&toml::Value) -> bool| -> Vec<&str> {
            rows.iter().filter(|row| of(row)).filter_map(|row| row["name"].as_str()).collect()
        };
        let mut all_named = Vec::new();
        for run in RUNS.iter().filter(|run| run.cargo.starts_with("xtask machines")) {
            assert!(run.cargo.contains(" --record"), "{}", run.name);
            all_named.extend(named_rows(run));
        }
        // `machines` leaves out the rows that run only by name: without a run that names it, such
        // a row never has a result.
        let runs_only_by_name = |row: &toml::Value| row.get("only_named").is_some();
        for row in names(&runs_only_by_name) {
            assert!(all_named.contains(&row), "no run names row {row}");
        }
        let all_rows = names(&|_: &toml::Value| true);
        for row in all_named {
            assert!(all_rows.contains(&row), "there is no row {row}");
        }
        let causes = RUNS.iter().find(|run| run.name == "causes-machines").unwrap();
        let forces_causes = |row: &toml::Value| {
            let deeds = row.get("does").and_then(toml::Value::as_array);
            deeds.is_some_and(|deeds| deeds.iter().any(|deed| deed.as_str() == Some("lateness")))
        };
        assert_eq!(named_rows(causes), names(&forces_causes));
    }

    #[test]
    fn a_run_has_a_name_of_its_own_and_a_command_that_can_be_typed() {
        let histories = RUNS.iter().find(|run| run.name == "histories").unwrap();
        assert!(histories.line().starts_with("PARACHRON_LONG=1 cargo test --release"));
        let mut names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RUNS.len());
    }
}
