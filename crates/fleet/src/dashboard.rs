//! The dashboard for Grafana, of the same metrics as the rules.
//!
//! The fields are those of Grafana's dashboard, schema version 39 (kinds/dashboard,
//! github.com/grafana/grafana), as `@grafana/schema` has them.

mod model;

use std::collections::BTreeMap;

pub use model::Dashboard;
use model::{
    Custom, Drawn, Field, FieldConfig, Legend, Options, Override, PROMETHEUS, Place, Property,
    Reduce, Scale, Stacking, Step, Target, Templating, Thresholds, Variable,
};

/// A panel, as people read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Panel {
    title: &'static str,
    says: &'static str,
    kind: Look,
    unit: &'static str,
    /// Columns of 24, and rows of 30 px.
    size: (u32, u32),
    /// Queries, and what their series are called.
    shows: &'static [(&'static str, &'static str)],
}

/// How a panel looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// One figure, red beyond, or below, this, in thousandths.
    Figure { red_from: Option<i32> },
    /// Lines.
    Lines,
    /// Lines on a logarithmic axis.
    Decades,
    /// A line within a band, which the next two are the ends of.
    Band,
    /// Bars upon another.
    Bars,
    /// A table of labels.
    Table,
}

const fn figure(
    title: &'static str,
    says: &'static str,
    unit: &'static str,
    red_from: Option<i32>,
    query: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, says, kind: Look::Figure { red_from }, unit, size: (6, 4), shows: query }
}

const fn panel(
    title: &'static str,
    says: &'static str,
    kind: Look,
    unit: &'static str,
    shows: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, says, kind, unit, size: (12, 8), shows }
}

/// What is chosen above the panels, in each query.
const CHOSEN: &str = "job=~\"$job\",instance=~\"$instance\"";

/// The panels, from the top, left to right. `$` stands for [`CHOSEN`].
const PANELS: &[Panel] = &[
    figure(
        "Machines",
        "Those that are scraped.",
        "none",
        None,
        &[("count(parachron_build_info{$})", "")],
    ),
    figure(
        "Nobody vouches for the clock",
        "Machines whose clocks are not synchronised.",
        "none",
        Some(1_000),
        &[("count(parachron_clock_synchronised{$} == 0) or vector(0)", "")],
    ),
    figure(
        "Alerts",
        "Alerts of Parachron that fire.",
        "none",
        Some(1_000),
        &[("count(ALERTS{alertname=~\"Parachron.*\",alertstate=\"firing\",$}) or vector(0)", "")],
    ),
    figure(
        "Largest error bound",
        "No clock is off by more.",
        "s",
        None,
        &[("max(parachron_clock_error_bound_seconds{$})", "")],
    ),
    panel(
        "Margin by consumer",
        "What the limit of each consumer leaves beyond the error bound, on the machine where \
         that is least. Below 0 the clock may be too far off.",
        Look::Lines,
        "s",
        &[(
            "min by (consumer) (parachron_clock_margin_seconds{$} and on (job, instance, consumer) \
             parachron_clock_consumer_here == 1)",
            "{{consumer}}",
        )],
    ),
    panel(
        "Error bound",
        "The clock is off by at most this.",
        Look::Decades,
        "s",
        &[("parachron_clock_error_bound_seconds{$}", "{{instance}}")],
    ),
    panel(
        "Offset within its bound",
        "Where the truth lies, seen from the clock of the machine chosen above, or of the one \
         that is furthest off: positive where the clock is behind.",
        Look::Band,
        "s",
        &[
            (
                "topk(1, abs(parachron_clock_offset_seconds{$})) * 0 + parachron_clock_offset_seconds{$}",
                "{{instance}}",
            ),
            (
                "topk(1, abs(parachron_clock_offset_seconds{$})) * 0 + parachron_clock_offset_seconds{$} \
                 + parachron_clock_offset_bound_seconds{$}",
                "at most",
            ),
            (
                "topk(1, abs(parachron_clock_offset_seconds{$})) * 0 + parachron_clock_offset_seconds{$} \
                 - parachron_clock_offset_bound_seconds{$}",
                "at least",
            ),
        ],
    ),
    panel(
        "Disruptions",
        "What happened to the machines.",
        Look::Bars,
        "none",
        &[(
            "sum by (kind) (increase(parachron_disruptions_total{$}[$__rate_interval])) > 0",
            "{{kind}}",
        )],
    ),
    panel(
        "Corrections",
        "Steps, slews, and what was refused or failed.",
        Look::Bars,
        "none",
        &[
            (
                "sum by (how) (increase(parachron_corrections_total{$}[$__rate_interval])) > 0",
                "{{how}}",
            ),
            (
                "sum by (why) (increase(parachron_corrections_not_made_total{$}[$__rate_interval])) > 0",
                "{{why}}",
            ),
        ],
    ),
    panel(
        "Stolen CPU time",
        "The share of the CPUs that hosts gave to others.",
        Look::Lines,
        "percentunit",
        &[(
            "rate(parachron_steal_seconds_total{$}[$__rate_interval]) / parachron_cpus{$}",
            "{{instance}}",
        )],
    ),
    panel(
        "A clock read",
        "What reading CLOCK_REALTIME takes.",
        Look::Decades,
        "s",
        &[("parachron_clock_read_seconds{$}", "{{instance}}")],
    ),
    panel(
        "Sources",
        "Each source and its state.",
        Look::Table,
        "none",
        &[("parachron_source_state{$} == 1", "")],
    ),
];

/// The dashboard.
pub fn dashboard() -> Dashboard {
    let label = |name, label, query| Variable {
        name,
        label,
        kind: "query",
        query,
        datasource: Some(PROMETHEUS),
        include_all: true,
        multi: true,
        refresh: 2,
    };
    let datasource = Variable {
        kind: "datasource",
        datasource: None,
        include_all: false,
        multi: false,
        refresh: 1,
        ..label("datasource", "Prometheus", "prometheus")
    };
    let instances = "label_values(parachron_build_info{job=~\"$job\"}, instance)";
    let list = vec![
        datasource,
        label("job", "Job", "label_values(parachron_build_info, job)"),
        label("instance", "Machine", instances),
    ];
    let (mut x, mut y) = (0, 0);
    let panels = (1..).zip(PANELS).map(|(id, panel)| {
        let (w, h) = panel.size;
        let place = Place { x, y, w, h };
        x += w;
        if x == 24 {
            (x, y) = (0, y + h);
        }
        drawn(id, panel, place)
    });
    Dashboard {
        uid: "parachron-clocks",
        title: "Clocks",
        description: "Clocks of virtual machines: their error bounds, what these leave for those \
                      that trust them, and what happened to them.",
        tags: ["parachron"],
        schema_version: 39,
        editable: true,
        graph_tooltip: 1,
        refresh: "1m",
        time: BTreeMap::from([("from", "now-6h"), ("to", "now")]),
        templating: Templating { list },
        panels: panels.collect(),
    }
}

fn drawn(id: u32, panel: &'static Panel, grid_pos: Place) -> Drawn {
    let is_table = panel.kind == Look::Table;
    let target = |(letter, (expr, legend_format)): (char, &(&str, &'static str))| Target {
        ref_id: letter.to_string(),
        expr: expr.replace("{$}", &format!("{{{CHOSEN}}}")).replace(",$}", &format!(",{CHOSEN}}}")),
        legend_format,
        instant: is_table,
        range: !is_table,
        format: if is_table { "table" } else { "time_series" },
    };
    let is_figure = matches!(panel.kind, Look::Figure { .. });
    let kind = match panel.kind {
        Look::Figure { .. } => "stat",
        Look::Table => "table",
        _ => "timeseries",
    };
    let is_series = kind == "timeseries";
    let legend = Legend {
        show_legend: true,
        display_mode: "table",
        placement: "right",
        calcs: ["lastNotNull"],
    };
    let reduce = Reduce { calcs: ["lastNotNull"], fields: "", values: false };
    Drawn {
        id,
        title: panel.title,
        description: panel.says,
        kind,
        datasource: PROMETHEUS,
        grid_pos,
        targets: ('A'..).zip(panel.shows).map(target).collect(),
        field_config: FieldConfig { defaults: field(panel), overrides: overrides(panel.kind) },
        options: Options {
            legend: is_series.then_some(legend),
            reduce_options: is_figure.then_some(reduce),
        },
    }
}

fn field(panel: &Panel) -> Field {
    let custom = match panel.kind {
        Look::Figure { .. } | Look::Table => Custom::default(),
        Look::Lines | Look::Band => Custom { draw_style: Some("line"), ..Custom::default() },
        Look::Decades => Custom {
            draw_style: Some("line"),
            scale_distribution: Some(Scale { kind: "log", log: 10 }),
            ..Custom::default()
        },
        Look::Bars => Custom {
            draw_style: Some("bars"),
            fill_opacity: Some(80),
            stacking: Some(Stacking { mode: "normal", group: "A" }),
            ..Custom::default()
        },
    };
    let Look::Figure { red_from } = panel.kind else {
        return Field { unit: panel.unit, thresholds: None, custom };
    };
    let red = red_from.map(|from| Step { color: "red", value: Some(f64::from(from) / 1000.0) });
    let steps = [Step { color: "green", value: None }].into_iter().chain(red).collect();
    Field { unit: panel.unit, thresholds: Some(Thresholds { mode: "absolute", steps }), custom }
}

/// The band's upper end is filled down to its lower one.
fn overrides(kind: Look) -> Vec<Override> {
    if kind != Look::Band {
        return Vec::new();
    }
    let matcher = Property { id: "byName", of: Some("at most"), value: None };
    let fills = Property { id: "custom.fillBelowTo", of: None, value: Some("at least") };
    vec![Override { matcher, properties: [fills] }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::METRICS;

    #[test]
    fn panels_name_what_there_is_and_fill_their_rows() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (query, _) in PANELS.iter().flat_map(|panel| panel.shows) {
            let mut names = query.split(|c| !is_name(c)).filter(|it| it.starts_with("parachron_"));
            let unknown = names.find(|name| METRICS.iter().all(|metric| metric.name != *name));
            assert_eq!(unknown, None, "{query}");
        }
        let panels = dashboard().panels;
        for (at, one) in panels.iter().enumerate() {
            let place = |panel: &Drawn| {
                let Place { x, y, w, h } = panel.grid_pos;
                (x, y, x + w, y + h)
            };
            let (left, top, right, bottom) = place(one);
            assert!(right <= 24, "{}", one.title);
            for other in &panels[at + 1..] {
                let (l, t, r, b) = place(other);
                assert!(r <= left || right <= l || b <= top || bottom <= t, "{}", other.title);
            }
            assert!(one.targets.iter().all(|target| !target.expr.contains("$}")), "{}", one.title);
        }
    }
}
