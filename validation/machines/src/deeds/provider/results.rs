//! validation/results/providers: what stock kernels made of each provider, a file for each row.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::checks::list;
use crate::results;
use crate::tools;

/// Writes the result of each row whose folder of reports is beside this one; fails if a check
/// did.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let beside = folder.parent().unwrap_or(folder);
    let mut failed = 0;
    for entry in fs::read_dir(beside).map_err(|error| cannot(beside, &error))?.flatten() {
        let (row, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if !row.starts_with("linux-") || !path.is_dir() {
            continue;
        }
        let (reports, at) = read(&path)?;
        if reports.is_empty() {
            continue;
        }
        let result = result(&row, &at, &reports);
        failed += list(&result["failed"]).len();
        let name = format!("providers/{row}.json");
        results::write(&tools::root().join(results::FOLDER).join(name), &result)?;
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed")) }
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// A row's reports, and when the last of them was written.
fn read(folder: &Path) -> Result<(Vec<Value>, String), String> {
    let entries = fs::read_dir(folder).map_err(|error| cannot(folder, &error))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        name.starts_with("linux-") && path.extension().is_some_and(|kind| kind == "json")
    });
    files.sort();
    let mut reports = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).map_err(|error| cannot(path, &error))?;
        let report = serde_json::from_str(&text);
        reports.push(report.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let latest = files.iter().map(|file| tools::written_utc(file)).max();
    Ok((reports, latest.unwrap_or_default()))
}

/// Boots as the lab reports them, and what became of each when it was moved.
fn result(row: &str, at: &str, reports: &[Value]) -> Value {
    let experiments = || reports.iter().flat_map(|report| list(&report["experiments"]));
    let checks: Vec<&Value> = experiments().flat_map(|one| list(&one["checks"])).collect();
    let (mut boots, mut moves) = (Vec::new(), Vec::new());
    for boot in experiments().flat_map(|one| list(&one["findings"]["rows"])) {
        let is_kernel = boot["backend"] == "kernel";
        let by = if is_kernel { &boot["backend"] } else { &boot["provider"] };
        let mut boot = boot.clone();
        boot["clock_by"] = by.clone();
        for moved in list(&boot["moved"]) {
            let mut moved = moved.clone();
            for field in ["kernel", "vcpus", "clock_by"] {
                moved[field] = boot[field].clone();
            }
            moves.push(moved);
        }
        boot.as_object_mut().map(|fields| fields.remove("moved"));
        boots.push(boot);
    }
    let with = |verdict: &'static str| {
        checks.iter().filter(move |check| check["verdict"] == verdict).collect::<Vec<_>>()
    };
    json!({
        "row": row,
        "date": at,
        "commit": tools::commit(),
        "host": reports.first().map(|report| &report["machine"]["kernel"]),
        "machine": stamp::machine(),
        "passed": with("passed").len(),
        "all": checks.len(),
        "failed": with("failed"),
        "boots": boots,
        "moves": moves,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_each_boot_each_move_and_each_failure() {
        let report = json!({ "machine": { "kernel": "7.2.13" }, "experiments": [{
            "findings": { "rows": [
                { "backend": "kernel", "provider": "kvm", "kernel": "6.1.0", "vcpus": 2,
                  "moved": [{ "way": "file", "away_s": 3.5 }] },
                { "backend": "own", "provider": "none", "kernel": "6.1.0", "vcpus": 2 },
            ] },
            "checks": [
                { "name": "kernel: boots", "verdict": "passed" },
                { "name": "none: rate", "verdict": "failed", "found": "d" },
            ],
        }] });
        let result = result("linux-moved", "2026-11-23 00:02", &[report]);
        let counts = (&result["passed"], &result["all"], &result["host"]);
        assert_eq!(counts, (&json!(1), &json!(2), &json!("7.2.13")));
        assert_eq!(result["failed"][0]["name"], "none: rate");
        assert_eq!(result["boots"][0]["clock_by"], "kernel");
        assert_eq!(result["boots"][1]["clock_by"], "none");
        assert!(result["boots"][0]["moved"].is_null());
        let moved = json!([{ "way": "file", "away_s": 3.5, "kernel": "6.1.0", "vcpus": 2, "clock_by": "kernel" }]);
        assert_eq!(result["moves"], moved);
    }
}
