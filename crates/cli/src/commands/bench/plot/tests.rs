//! A plot is looked at by people; what a program can check is that nothing
//! lies outside the picture and no words on others.

use super::canvas::width;
use super::*;
use crate::commands::bench::sample::{report, run, three_sources};

/// Words in the picture: left, right and middle height.
struct Words {
    left: i32,
    right: i32,
    y: i32,
    text: String,
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let from = tag.find(&format!(" {name}=\"")).expect(name) + name.len() + 3;
    &tag[from..from + tag[from..].find('"').unwrap()]
}

fn words(svg: &str) -> Vec<Words> {
    svg.split("<text")
        .skip(1)
        .map(|rest| {
            let (tag, rest) = rest.split_once('>').unwrap();
            let text = rest.split_once('<').unwrap().0.trim().to_owned();
            let size = attribute(tag, "font-size").parse::<f64>().unwrap().round() as i32;
            let (x, long) = (attribute(tag, "x").parse::<i32>().unwrap(), width(&text, size));
            let left = match attribute(tag, "text-anchor") {
                "start" => x,
                "middle" => x - long / 2,
                _ => x - long,
            };
            let y = attribute(tag, "y").parse().unwrap();
            Words { left, right: left + long, y, text }
        })
        .collect()
}

fn check(svg: &str) {
    let words = words(svg);
    assert!(words.len() > 10, "{svg}");
    for (index, one) in words.iter().enumerate() {
        assert!(one.left >= 0 && one.right <= WIDTH + 10, "outside: {}", one.text);
        for other in &words[index + 1..] {
            let apart = one.right <= other.left || other.right <= one.left;
            assert!(
                apart || (one.y - other.y).abs() >= 11,
                "{:?} is on {:?}",
                one.text,
                other.text
            );
        }
    }
}

#[test]
fn words_are_inside_and_apart() {
    check(&svg(&report(vec![run("tsc", 27.1)])).unwrap());
    check(&svg(&three_sources()).unwrap());
}

#[test]
fn a_report_with_nothing_measured_is_still_a_picture() {
    let mut empty = run("tsc", 27.1);
    empty.measurements.costs.clear();
    empty.throughput.clear();
    let svg = svg(&report(vec![empty])).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
}

#[test]
fn one_source_is_coloured_by_who_answers() {
    let svg = svg(&report(vec![run("tsc", 27.1)])).unwrap();
    for words in ["an instruction", "answered by the vDSO", "enters the kernel", "clocksource tsc"]
    {
        assert!(svg.contains(words), "{words}");
    }
    assert!(!svg.contains("not counted"));
}
