//! The latest result of each cause, kept as `causes.json` and rendered as `causes.md`: a run
//! that was stopped resumes at the first cause without a right result of this commit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const DATA: &str = "causes.json";
const PAGE: &str = "causes.md";

const HEAD: &str = "\
# Causes of lateness, forced

`cargo xtask long --only causes` forces each cause, runs the same without it as a control, and
writes this page from the data in [causes.json](causes.json). A case is right where the cause is
named in at least 95 % of the runs that force it, and in at most 2 % of the controls. Runs in which
other processes kept the cause from being forced, or forced one, do not count; nor do runs of
`idle-exit` in which leaving idle, measured by other code before and after, did not cost the
program's limit (5 µs, and 30 % of a wake-up without it) with 99 % confidence. The data have each
run's figures. The load is the average of a minute when the runs began and ended, their own threads
included.

| cause | result | named, of runs | named, of controls | did not count | load | date, UTC | commit |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The results in a folder.
#[derive(Debug)]
pub(crate) struct Results {
    folder: PathBuf,
    commit: String,
    causes: Vec<Value>,
}

impl Results {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join(DATA)).unwrap_or_default();
        let data = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let causes = data["causes"].as_array().cloned().unwrap_or_default();
        Self { folder: folder.to_owned(), commit: stamp::commit(Path::new(".")), causes }
    }

    /// Whether a cause has a right result of so many runs at this commit.
    pub(crate) fn has(&self, name: &str, tries: usize) -> bool {
        let count = |runs: &Value| runs["runs"].as_u64().unwrap_or(0);
        // Files that differ from a commit, or from one that is not known, may differ from those of
        // the last run.
        stamp::is_exact(&self.commit)
            && self.cause(name).is_some_and(|cause| {
                cause["verdict"] == "right"
                    && cause["commit"] == json!(self.commit)
                    && count(&cause["forced"]) >= tries as u64
            })
    }

    fn cause(&self, name: &str) -> Option<&Value> {
        self.causes.iter().find(|cause| cause["cause"] == name)
    }

    /// Keeps a result and writes both files. A cause that could not be measured now keeps its
    /// earlier result.
    pub(crate) fn keep(&mut self, mut result: Value, load: [String; 2]) -> Result<(), String> {
        result["date"] = json!(stamp::now_utc());
        result["commit"] = json!(self.commit);
        result["load"] = json!(load);
        let name = result["cause"].clone();
        match self.causes.iter_mut().find(|cause| cause["cause"] == name) {
            Some(earlier) if result["verdict"] != "not-measured" => *earlier = result,
            Some(_) => {}
            None => self.causes.push(result),
        }
        let data = format!("{:#}\n", json!({ "causes": self.causes }));
        fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(self.folder.join(DATA), data))
            .and_then(|()| fs::write(self.folder.join(PAGE), page(&self.causes)))
            .map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}

fn page(causes: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("—").to_owned();
    let share = |runs: &Value| format!("{} of {}", runs["named"], runs["runs"]);
    let mut page = HEAD.to_owned();
    let mut reasons = String::new();
    for cause in causes {
        let (forced, control) = (&cause["forced"], &cause["control"]);
        let result = match text(&cause["verdict"]).as_str() {
            "not-measured" => "not measured".to_owned(),
            "wrong" => "**wrong**".to_owned(),
            right => right.to_owned(),
        };
        page += &format!(
            "| {} | {result} | {} | {} | {} and {} | {} to {} | {} | {} |\n",
            text(&cause["cause"]),
            share(forced),
            share(control),
            forced["did_not_count"],
            control["did_not_count"],
            text(&cause["load"][0]),
            text(&cause["load"][1]),
            text(&cause["date"]),
            text(&cause["commit"]),
        );
        for why in [forced, control].map(|runs| &runs["why"]).into_iter().filter_map(Value::as_str)
        {
            reasons += &format!("- {}: {why}\n", text(&cause["cause"]));
        }
    }
    if !reasons.is_empty() {
        page += &format!("\nThe last reason why a run did not count:\n\n{reasons}");
    }
    page
}

/// The load average of the last minute (proc_loadavg(5)).
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(verdict: &str, runs: u64, named: u64) -> Value {
        let why = (runs < 200).then_some("busy: 5 threads run, 1 of them the case's");
        let forced = json!({
            "runs": runs, "named": named, "did_not_count": 200 - runs, "why": why,
        });
        let control = json!({ "runs": runs, "named": 0, "did_not_count": 0, "why": null });
        json!({ "cause": "quota", "verdict": verdict, "forced": forced, "control": control })
    }

    #[test]
    fn a_run_that_was_stopped_resumes() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |commit: &str| {
            let commit = commit.to_owned();
            Results { commit, ..Results::read(folder.path()) }
        };
        let load = || ["0.50".to_owned(), "1.25".to_owned()];
        let mut results = read("11111111");
        assert!(!results.has("quota", 200), "nothing ran");
        results.keep(result("right", 200, 199), load()).expect("written");
        let later = read("11111111");
        assert!(later.has("quota", 200) && !later.has("stopped", 200));
        assert!(!later.has("quota", 201), "more runs are wanted");
        assert!(!read("22222222").has("quota", 200), "the code is another");
        let mut changed = read("11111111-dirty");
        assert!(!changed.has("quota", 200), "the code is not known");
        // Busy: the earlier figures stay, with their date and commit.
        changed.keep(result("not-measured", 0, 0), load()).expect("written");
        assert!(read("11111111").has("quota", 200));
        changed.keep(result("wrong", 200, 100), load()).expect("written");
        assert!(!read("11111111").has("quota", 200));
    }

    #[test]
    fn the_page_has_a_row_for_each_cause() {
        let mut cause = result("right", 200, 199);
        cause["date"] = json!("2026-11-24 22:10");
        cause["commit"] = json!("28010492");
        cause["load"] = json!(["0.50", "1.25"]);
        let all = page(&[cause.clone()]);
        let row = "| quota | right | 199 of 200 | 0 of 200 | 0 and 0 | 0.50 to 1.25 | 2026-11-24 22:10 | 28010492 |\n";
        assert!(all.ends_with(row), "{all}");
        cause["verdict"] = json!("not-measured");
        cause["forced"] = result("", 7, 7)["forced"].clone();
        let all = page(&[cause]);
        assert!(all.contains("| quota | not measured | 7 of 7 |"), "{all}");
        assert!(all.ends_with("- quota: busy: 5 threads run, 1 of them the case's\n"), "{all}");
    }
}
