//! The map as a page: one file, which loads nothing and runs no script but its own.

use fleet_map::errormap::{Link, Map, Node};
use serde_json::{Value, json};

use super::text::{proof, sentence};
use crate::error::CommandError;
use crate::output::ended;

/// The page without its figures. Its policy names its script and style by their hashes.
const PAGE: &str = include_str!("page.html");
/// Where the figures go.
const DATA: &str = "\"FIGURES\"";

/// The page with the map in it.
pub(super) fn page(map: &Map) -> Result<String, CommandError> {
    let node = |it: &Node| {
        let ahead = it.ahead.map(|it| [it.estimate_ns, it.min_ns, it.max_ns]);
        let claim = it.claim.map(|it| [it.min_ns, it.max_ns]);
        json!([it.name, ahead, claim])
    };
    let link = |it: &Link| {
        let uneven = it.asymmetry.map(|it| [it.min_ns, it.max_ns]);
        let (all, measured) = (it.all, it.measured);
        json!([
            it.nodes.0,
            it.nodes.1,
            measured.min_ns,
            measured.max_ns,
            all.min_ns,
            all.max_ns,
            it.samples,
            it.age_ns,
            uneven
        ])
    };
    let finding = |it: &fleet_map::errormap::MapFinding| {
        let kind = serde_json::to_value(it).unwrap_or_default();
        let nodes = [&kind["node"], &kind["peer"]].into_iter().filter(|it| it.is_string());
        let suspects = kind["suspects"].as_array().into_iter().flatten();
        let nodes: Vec<&Value> = nodes.chain(suspects).collect();
        json!({"kind": kind["kind"], "text": sentence(it), "proof": proof(it), "nodes": nodes})
    };
    let figures = json!({
        "asOf": map.as_of_ns / 1_000_000,
        "drift": map.drift_ppm,
        "tolerance": map.tolerance_ns,
        "utc": map.median_ahead_of_utc.map(|it| [it.min_ns, it.max_ns]),
        "nodes": map.nodes.iter().map(node).collect::<Vec<_>>(),
        "links": map.links.iter().map(link).collect::<Vec<_>>(),
        "findings": map.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    // No name ends the element that holds it.
    let figures = ended(serde_json::to_string(&figures))?.replace('<', "\\u003c");
    Ok(PAGE.replacen(DATA, figures.trim_end(), 1))
}

#[cfg(test)]
mod tests {
    use fleet_map::errormap::{Samples, Settings, solve};
    use sha2::{Digest, Sha256};

    use super::*;

    /// As a policy names what may run: `'sha256-...'`.
    fn hash(of: &str) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut bits = String::from("sha256-");
        for three in Sha256::digest(of).chunks(3) {
            let number = three.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
                << (8 * (3 - three.len()));
            let digits = (0..4).map(|at| char::from(DIGITS[number >> (18 - 6 * at) & 63]));
            bits.extend(
                digits.take(three.len() + 1).chain(std::iter::repeat_n('=', 3 - three.len())),
            );
        }
        bits
    }

    fn inside<'p>(page: &'p str, open: &str, close: &str) -> &'p str {
        let rest = page.split_once(open).expect("it opens").1;
        rest.split_once(close).expect("and closes").0
    }

    #[test]
    fn the_page_allows_its_own_script_and_style_and_nothing_else() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/page.html");
        let page = std::fs::read_to_string(path).unwrap();
        let script = hash(inside(&page, "\n<script>", "</script>"));
        let style = hash(inside(&page, "<style>", "</style>"));
        let policy = format!(
            "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; \
             form-action 'none'"
        );
        let stated = inside(&page, "Content-Security-Policy\" content=\"", "\"");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, page.replace(stated, &policy)).unwrap();
            return;
        }
        assert_eq!(stated, policy, "UPDATE=1 cargo test the_page_allows");
        // Nothing is loaded, and no attribute runs or styles anything.
        for word in ["http:", "https:", "//", "src=", "url(", "style=", "onclick", "innerHTML"] {
            let found = page.lines().find(|line| {
                let code = line.split(" // ").next().unwrap_or_default();
                code.contains(word) && !line.trim_start().starts_with("//")
            });
            assert_eq!(found, None, "{word}");
        }
    }

    #[test]
    fn a_name_cannot_end_the_element_that_holds_the_figures() {
        let mut samples = Samples::default();
        let line = r#"{"from":"</script><script>alert(1)//","to":"b","t1_ns":1,"t2_ns":5,"t3_ns":6,"t4_ns":9}"#;
        assert_eq!(fleet_map::pair::read(line.as_bytes(), &mut samples).unwrap().taken, 1);
        let page = page(&solve(&samples, &Settings::default())).unwrap();
        let figures = inside(&page, "id=\"figures\">", "</script>");
        let figures: Value = serde_json::from_str(figures).unwrap();
        assert_eq!(figures["nodes"].as_array().unwrap().len(), 2, "{figures}");
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
