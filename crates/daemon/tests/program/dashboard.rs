//! The dashboard: its metrics exist, and its panels do not overlap.

use daemon::fleet::{DASHBOARD, METRICS};
use serde_json::Value;

use super::alerts::{metrics, recorded};

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

#[test]
fn each_metric_exists() {
    let exists = |name: &str| {
        METRICS.iter().any(|metric| metric.name == name)
            || recorded().any(|recorded| recorded == name)
    };
    let mut count = 0;
    for panel in panels() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let unknown = metrics(query).find(|name| !exists(name));
            assert_eq!(unknown, None, "{}: {query}", panel["title"]);
            count += metrics(query).count();
            // An alert is named by its prefix alone.
            let alerts = query.contains("ALERTS{alertname=~\"Parachron.*\"");
            assert!(alerts || metrics(query).count() > 0, "{query}");
        }
    }
    assert!(count >= 12, "{count}");
    // Those of the variables above the panels.
    assert_eq!(metrics(DASHBOARD).find(|name| !exists(name)), None);
}

#[test]
fn panels_do_not_overlap() {
    let sides = |panel: &Value| {
        let figure = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (left, top) = (figure("x"), figure("y"));
        (left, top, left + figure("w"), top + figure("h"))
    };
    let panels = panels();
    for (at, one) in panels.iter().enumerate() {
        let (left, top, right, bottom) = sides(one);
        assert!(right <= 24, "{}", one["title"]);
        for other in &panels[at + 1..] {
            let (l, t, r, b) = sides(other);
            assert!(r <= left || right <= l || b <= top || bottom <= t, "{}", other["title"]);
        }
    }
}
