//! The result as a page for docs/validation.

use std::fmt::Write;

use serde_json::Value;

use crate::nested::checks::{Check, Results, clocks};
use crate::nested::disruptions::{CLOCKS, Fact, Findings};
use crate::nested::image;

/// What was run, on what.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Name and content of each line: date, versions, machine.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// What each phase took, s.
    pub(crate) phases: Vec<(String, f64)>,
}

/// The calls whose cost is shown.
const CALLS: &[&str] =
    &["rdtsc", "clock_gettime(CLOCK_MONOTONIC)", "clock_gettime(CLOCK_MONOTONIC_COARSE)"];

/// The whole page.
pub(crate) fn page(
    setting: &Setting,
    checks: &[Check],
    results: Results<'_>,
    image: &image::Report,
    disruptions: &Findings,
) -> String {
    let mut text = String::from(
        "# A stock kernel under emulation\n\n\
         `cargo xtask e2e nested --record` writes this page: QEMU's software emulation boots\n\
         Debian's kernel, KVM is loaded there, and `parachron` runs beside it. The figures\n\
         show that the instruments work on these clocks; they say nothing of hardware.\n\n\
         | | |\n| --- | --- |\n",
    );
    for (name, content) in &setting.lines {
        row(&mut text, &[name, content]);
    }
    held(&mut text, "Checks", checks);
    costs(&mut text, &results.json("bench"));
    let _ = write!(
        text,
        "\n## The lab's own guest, by its PVH entry\n\n\
         Its report on the first serial port, the machine as above but for the kernel:\n\n\
         ```text\n{}\n```\n",
        image.lines.join("\n")
    );
    text.push_str(
        "\n## A guest that is disturbed\n\n\
         A second guest of this kernel is stopped, moved and put back by QEMU, and its clock\n\
         set and steered in the guest, while `parachron watch` and then `parachron keep` run\n\
         there. A small program tells the guest's clocks each 20 ms over a serial port, beside\n\
         this machine's time of day when they are heard; keep's NTP server is our own, with\n\
         this machine's time. *After* counts from the moment at which the guest goes on.\n",
    );
    held(&mut text, "What watch says and keep does", &disruptions.checks);
    facts(&mut text, &disruptions.facts);
    text.push_str("\n## What it took\n\n| phase | s |\n| --- | ---: |\n");
    for (name, took_s) in &setting.phases {
        row(&mut text, &[name, &format!("{took_s:.1}")]);
    }
    text
}

/// A table of checks, and how many hold.
fn held(text: &mut String, heading: &str, checks: &[Check]) {
    let held = checks.iter().filter(|check| check.holds).count();
    let _ = write!(text, "\n## {heading}: {held} of {} hold\n\n", checks.len());
    text.push_str("| must hold | found | |\n| --- | --- | --- |\n");
    for Check { what, found, holds } in checks {
        row(text, &[what, found, if *holds { "holds" } else { "FAILS" }]);
    }
}

/// One row of a table.
fn row(text: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// What each disruption does to the clocks of a guest.
fn facts(text: &mut String, facts: &[Fact]) {
    text.push_str(
        "\n## What a disruption does to the clocks\n\n\
         How much less the guest lived than this machine, and how far each of its clocks\n\
         fell behind this machine's time of day by it, s. After `snapshot-load` in a QEMU that\n\
         runs on, the TSC does not go back with the rest (`cpu_get_ticks` never does), so that\n\
         a kernel on it takes the time undone for time that passed.\n\n",
    );
    let mut heading = vec!["disruption", "away"];
    heading.extend(CLOCKS);
    heading.push("RTC");
    row(text, &heading);
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(heading.len() - 1));
    for Fact { disruption, away_s, lost_s, rtc_lost_s } in facts {
        let mut cells = vec![disruption.clone(), format!("{away_s:.3}")];
        cells.extend(lost_s.iter().map(|lost_s| format!("{lost_s:.3}")));
        cells.push(format!("{rtc_lost_s:.1}"));
        row(text, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// What reading costs there, by clock source.
fn costs(text: &mut String, bench: &Result<Value, String>) {
    text.push_str("\n## Cost of a reading there\n\n");
    text.push_str("| clocksource | call | median ns | min | p99 | samples |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: |\n");
    for (source, _) in clocks::SOURCES {
        for call in CALLS {
            match cost(bench, source, call) {
                Ok(cells) => row(text, &cells.each_ref().map(String::as_str)),
                Err(why) => row(text, &[source, call, &format!("not measured: {why}"), "", "", ""]),
            }
        }
    }
}

fn cost(bench: &Result<Value, String>, source: &str, call: &str) -> Result<[String; 6], String> {
    let costs = clocks::run(bench, source)?.get("costs").and_then(Value::as_array);
    let mut costs = costs.into_iter().flatten();
    let found = costs
        .find(|cost| cost.get("call").and_then(Value::as_str) == Some(call))
        .ok_or("not among the calls")?;
    let ns = |path: &str| found.pointer(path).and_then(Value::as_f64).map(|ns| format!("{ns:.1}"));
    let samples = found.get("samples").and_then(Value::as_u64).map(|n| n.to_string());
    let cells = (ns("/ns/median"), ns("/ns/min"), ns("/ns/p99"), samples);
    let (Some(median), Some(min), Some(p99), Some(samples)) = cells else {
        return Err("no figures".to_owned());
    };
    Ok([source.to_owned(), call.to_owned(), median, min, p99, samples])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nested::records::Record;

    #[test]
    fn the_page_has_every_check_and_says_what_is_missing() {
        let bench = r#"{"runs": [{"clocksource": "tsc", "costs": [{"call": "rdtsc",
            "ns": {"median": 12.94, "min": 12.5, "p99": 21.6}, "samples": 32416}]}]}"#;
        let record = Record {
            name: "bench".to_owned(),
            status: 0,
            started_s: 1.0,
            ended_s: 2.0,
            stdout: bench.to_owned(),
            stderr: String::new(),
        };
        let setting = Setting {
            lines: vec![("kernel", "6.1".to_owned())],
            phases: vec![("guest".to_owned(), 14.84)],
        };
        let check = |holds| Check { what: "a | b".to_owned(), found: "c".to_owned(), holds };
        let image = image::Report { lines: vec!["pit: 0 ns".to_owned()], between_s: (0, 1) };
        let fact = Fact {
            disruption: "stop".to_owned(),
            away_s: 3.0004,
            lost_s: [3.0, 3.001, 3.0, 3.0],
            rtc_lost_s: -0.03,
        };
        let disruptions = Findings { checks: vec![check(true)], facts: vec![fact] };
        let checks = [check(true), check(false)];
        let page = page(&setting, &checks, Results(&[record]), &image, &disruptions);
        for line in [
            "| kernel | 6.1 |",
            "## Checks: 1 of 2 hold",
            "| a \\| b | c | holds |",
            "| a \\| b | c | FAILS |",
            "| tsc | rdtsc | 12.9 | 12.5 | 21.6 | 32416 |",
            "| hpet | rdtsc | not measured: no run under hpet |  |  |  |",
            "pit: 0 ns",
            "## What watch says and keep does: 1 of 1 hold",
            "| disruption | away | REALTIME | MONOTONIC | BOOTTIME | MONOTONIC_RAW | RTC |",
            "| stop | 3.000 | 3.000 | 3.001 | 3.000 | 3.000 | -0.0 |",
            "| guest | 14.8 |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line:?} is not in\n{page}");
        }
    }
}
