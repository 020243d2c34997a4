//! Grafana's dashboard as it is written: schema version 39.

use std::collections::BTreeMap;

use serde::Serialize;

/// Grafana's dashboard.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dashboard {
    pub(super) uid: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) tags: [&'static str; 1],
    pub(super) schema_version: u32,
    pub(super) editable: bool,
    pub(super) graph_tooltip: u32,
    pub(super) refresh: &'static str,
    pub(super) time: BTreeMap<&'static str, &'static str>,
    pub(super) templating: Templating,
    pub(super) panels: Vec<Drawn>,
}

#[derive(Debug, Serialize)]
pub(super) struct Templating {
    pub(super) list: Vec<Variable>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) query: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) datasource: Option<DataSource>,
    pub(super) include_all: bool,
    pub(super) multi: bool,
    /// 2: when the time range changes.
    pub(super) refresh: u32,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct DataSource {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) uid: &'static str,
}

pub(super) const PROMETHEUS: DataSource = DataSource { kind: "prometheus", uid: "${datasource}" };

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Drawn {
    pub(super) id: u32,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) datasource: DataSource,
    pub(super) grid_pos: Place,
    pub(super) targets: Vec<Target>,
    pub(super) field_config: FieldConfig,
    pub(super) options: Options,
}

#[derive(Debug, Serialize)]
pub(super) struct Place {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) w: u32,
    pub(super) h: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) ref_id: String,
    pub(super) expr: String,
    pub(super) legend_format: &'static str,
    pub(super) instant: bool,
    pub(super) range: bool,
    pub(super) format: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct FieldConfig {
    pub(super) defaults: Field,
    pub(super) overrides: Vec<Override>,
}

#[derive(Debug, Serialize)]
pub(super) struct Field {
    pub(super) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thresholds: Option<Thresholds>,
    pub(super) custom: Custom,
}

#[derive(Debug, Serialize)]
pub(super) struct Thresholds {
    pub(super) mode: &'static str,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) color: &'static str,
    pub(super) value: Option<f64>,
}

/// How series are drawn; empty where there are none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Custom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw_style: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fill_opacity: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scale_distribution: Option<Scale>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stacking: Option<Stacking>,
}

#[derive(Debug, Serialize)]
pub(super) struct Scale {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) log: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Stacking {
    pub(super) mode: &'static str,
    pub(super) group: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Override {
    pub(super) matcher: Property,
    pub(super) properties: [Property; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct Property {
    pub(super) id: &'static str,
    #[serde(rename = "options", skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) legend: Option<Legend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reduce_options: Option<Reduce>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Legend {
    pub(super) show_legend: bool,
    pub(super) display_mode: &'static str,
    pub(super) placement: &'static str,
    pub(super) calcs: [&'static str; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct Reduce {
    pub(super) calcs: [&'static str; 1],
    pub(super) fields: &'static str,
    pub(super) values: bool,
}
