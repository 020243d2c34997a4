//! The report for people: the answer, then the figures.

use instruments::figures::{count, three_digits, time, whole_time};
use instruments::latency::{FigureKind, Latency};

use super::report::LatencyReport;
use crate::commands::bench::tables::missing;
use crate::output::table::{Cell, Column, ReportTable};

/// The whole report.
pub(super) fn render(report: &LatencyReport) -> String {
    let found = &report.latency;
    let mut text = format!("{}{}\n", answer(found), report.machine.line());
    for table in [figures(found), missing(&found.not_measured)] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.text());
        }
    }
    text
}

/// The longest wait, and what the host and the quota took: a line each.
fn answer(found: &Latency) -> String {
    let latest = found.figures.iter().max_by(|one, other| one.ns.max.total_cmp(&other.ns.max));
    let late = match latest {
        Some(figure) => {
            format!("Nothing took longer than {} ({}).", time(figure.ns.max), figure.kind.name())
        }
        None => "No wake-up was measured.".to_owned(),
    };
    let stolen = match found.cpus.stolen {
        Some(share) => format!("The host stole {:.1} % of the CPU time.", share * 100.0),
        None => "It is not known how much CPU time the host stole.".to_owned(),
    };
    let throttled = match found.cpus.throttled_ns {
        Some(ns) if ns > 0 => {
            format!("A CPU quota stopped this program for {}.\n", whole_time(ns))
        }
        _ => String::new(),
    };
    format!("{late}\n{stolen}\n{throttled}")
}

/// The figures, a row each.
fn figures(found: &Latency) -> ReportTable {
    let figure = |heading| Column::figures(heading, "µs");
    let landmarks = ["min", "p50", "p90", "p99", "p99.9", "max"].map(figure);
    let columns = [Column::names("figure")].into_iter().chain(landmarks);
    let columns = columns.chain([Column::figures("samples", "")]);
    let mut table = ReportTable::new(format!("Latency over {}", time(found.over_s * 1e9)), columns);
    for figure in &found.figures {
        let ns = figure.ns;
        let cells = [ns.min, ns.p50, ns.p90, ns.p99, ns.p99_9, ns.max]
            .map(|ns| Cell::from(three_digits(ns / 1e3)));
        let name = Cell::from(short_name(figure.kind));
        table.row([name].into_iter().chain(cells).chain([count(ns.samples).into()]));
    }
    if let Some(idle) = found.cpus.idle {
        table.note(format!("The CPUs were idle for {:.0} % of the time.", idle * 100.0));
    }
    if let Some(answers) = &found.answers {
        table.note(format!(
            "{}: {} of {} requests answered, {} late, {} foreign.",
            answers.peer, answers.answered, answers.sent, answers.late, answers.foreign
        ));
    }
    table.note("To see which step of a late wake-up takes the time:");
    table.note("sudo rtla timerlat top --aa-only 40");
    table
}

/// Names that leave room for eight figures.
pub(super) fn short_name(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::TimerWakeUpAwake => "– CPU kept awake",
        FigureKind::TimerWakeUpInheritedSlack => "– inherited slack",
        FigureKind::CrossCpuWakeUp => "wake-up by CPU",
        FigureKind::PipeOneCpu => "pipe, one CPU",
        FigureKind::PipeAcrossCpus => "pipe, two CPUs",
        FigureKind::Echo => "echo",
        kind => kind.name(),
    }
}

#[cfg(test)]
mod tests {
    use instruments::distribution::Distribution;
    use instruments::latency::CpuShares;

    use super::*;

    #[test]
    fn the_answer_names_the_latest_wake_up_and_what_was_taken() {
        let mut found = Latency::default();
        assert_eq!(
            answer(&found),
            "No wake-up was measured.\nIt is not known how much CPU time the host stole.\n"
        );
        for (kind, us) in [(FigureKind::TimerWakeUp, 300.0), (FigureKind::CrossCpuWakeUp, 40.0)] {
            let mut samples = Distribution::new();
            samples.record(us * 1e3);
            found.add_figure(kind, &samples);
        }
        found.cpus = CpuShares { stolen: Some(0.0213), idle: None, throttled_ns: Some(5_000_000) };
        assert_eq!(
            answer(&found),
            "Nothing took longer than 300 µs (timer wake-up).\n\
             The host stole 2.1 % of the CPU time.\n\
             A CPU quota stopped this program for 5 ms.\n"
        );
    }
}
