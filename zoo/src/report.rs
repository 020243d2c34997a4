//! The outputs as a page for docs/validation.

use std::fmt::Write;

use serde_json::Value;

use crate::checks::{Check, Outputs, clocks};
use crate::disruptions::{CLOCKS, Effect, Findings};
use crate::image;

/// The calls whose cost is printed.
const CALLS: &[&str] =
    &["rdtsc", "clock_gettime(CLOCK_MONOTONIC)", "clock_gettime(CLOCK_MONOTONIC_COARSE)"];

/// The whole page: what ran and on what, how long each phase took in seconds,
/// and the results.
pub(crate) fn page(
    setting: &[(&str, String)],
    phases: &[(String, f64)],
    checks: &[Check],
    outputs: Outputs<'_>,
    image: &image::Report,
    disruptions: &Findings,
) -> String {
    let mut text = String::from(
        "# A stock kernel under emulation\n\n\
         `cargo xtask machines --record` writes this page: QEMU's software emulation boots\n\
         Debian's kernel, KVM is loaded there, and `parachron` runs in that guest. The figures\n\
         show that the instruments work on these clocks; they say nothing about hardware.\n\n\
         | | |\n| --- | --- |\n",
    );
    for (name, content) in setting {
        row(&mut text, &[name, content]);
    }
    table(&mut text, "Checks", checks);
    costs(&mut text, &outputs.json("bench"));
    let _ = write!(
        text,
        "\n## The lab's guest image, booted by its PVH entry\n\n\
         Its report on the first serial port, on the machine above:\n\n\
         ```text\n{}\n```\n",
        image.lines.join("\n")
    );
    text.push_str(
        "\n## Disruptions\n\n\
         QEMU pauses, migrates and restores a second guest of this kernel, and its clock is set\n\
         and steered in the guest, while `parachron watch` and then `parachron keep` run there.\n\
         A small program prints the guest's clocks every 20 ms to a serial port; each line is\n\
         stamped with this machine's time of day on receipt. keep's NTP server is our own, with\n\
         this machine's time. *After* counts from the moment at which the guest resumes.\n",
    );
    table(&mut text, "watch and keep", &disruptions.checks);
    effects(&mut text, &disruptions.effects);
    text.push_str("\n## Duration\n\n| phase | s |\n| --- | ---: |\n");
    for (name, took_s) in phases {
        row(&mut text, &[name, &format!("{took_s:.1}")]);
    }
    text
}

/// A table of checks, and how many passed.
fn table(text: &mut String, heading: &str, checks: &[Check]) {
    let passed = checks.iter().filter(|check| check.passed).count();
    let _ = write!(text, "\n## {heading}: {passed} of {} passed\n\n", checks.len());
    text.push_str("| check | found | |\n| --- | --- | --- |\n");
    for Check { what, found, passed } in checks {
        row(text, &[what, found, if *passed { "passed" } else { "FAILED" }]);
    }
}

/// One row of a table.
fn row(text: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// How each disruption changes the clocks of a guest.
fn effects(text: &mut String, effects: &[Effect]) {
    text.push_str(
        "\n## Effect of a disruption on the clocks\n\n\
         How long the guest did not run, and how far each of its clocks fell behind this\n\
         machine's time of day, s. After `snapshot-load` in a QEMU that keeps running, the TSC\n\
         does not go back with the rest (`cpu_get_ticks` only goes forward), so that a kernel\n\
         on the TSC counts the undone time as elapsed.\n\n",
    );
    let mut heading = vec!["disruption", "pause"];
    heading.extend(CLOCKS);
    heading.push("RTC");
    row(text, &heading);
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(heading.len() - 1));
    for Effect { disruption, pause_s, lost_s, rtc_lost_s } in effects {
        let mut cells = vec![disruption.clone(), format!("{pause_s:.3}")];
        cells.extend(lost_s.iter().map(|lost_s| format!("{lost_s:.3}")));
        cells.push(format!("{rtc_lost_s:.1}"));
        row(text, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The cost of a reading, by clock source.
fn costs(text: &mut String, bench: &Result<Value, String>) {
    text.push_str("\n## Cost of a reading\n\n");
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
    let cost = clocks::cost(clocks::run(bench, source)?, call).ok_or("not among the calls")?;
    let ns = |name| cost["ns"][name].as_f64().map(|ns| format!("{ns:.1}")).ok_or("no figures");
    let samples = cost["samples"].as_u64().ok_or("no figures")?.to_string();
    Ok([source.to_owned(), call.to_owned(), ns("median")?, ns("min")?, ns("p99")?, samples])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;

    #[test]
    fn the_page_has_every_check_and_names_what_is_missing() {
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
        let (setting, phases) = ([("kernel", "6.1".to_owned())], [("guest".to_owned(), 14.84)]);
        let check = |passed| Check { what: "a | b".to_owned(), found: "c".to_owned(), passed };
        let image = image::Report { lines: vec!["pit: 0 ns".to_owned()], between_s: (0, 1) };
        let effect = Effect {
            disruption: "stop".to_owned(),
            pause_s: 3.0004,
            lost_s: [3.0, 3.001, 3.0, 3.0],
            rtc_lost_s: -0.03,
        };
        let disruptions =
            Findings { checks: vec![check(true)], effects: vec![effect], skipped: Vec::new() };
        let checks = [check(true), check(false)];
        let page = page(&setting, &phases, &checks, Outputs(&[record]), &image, &disruptions);
        for line in [
            "| kernel | 6.1 |",
            "## Checks: 1 of 2 passed",
            "| a \\| b | c | passed |",
            "| a \\| b | c | FAILED |",
            "| tsc | rdtsc | 12.9 | 12.5 | 21.6 | 32416 |",
            "| hpet | rdtsc | not measured: no run under hpet |  |  |  |",
            "pit: 0 ns",
            "## watch and keep: 1 of 1 passed",
            "| disruption | pause | REALTIME | MONOTONIC | BOOTTIME | MONOTONIC_RAW | RTC |",
            "| stop | 3.000 | 3.000 | 3.001 | 3.000 | 3.000 | -0.0 |",
            "| guest | 14.8 |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line:?} is not in\n{page}");
        }
    }
}
