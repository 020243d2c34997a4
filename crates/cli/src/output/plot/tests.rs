//! People view a plot; what a program can check is that nothing
//! lies outside the picture and no words on others.

use super::WIDTH;
use super::canvas::width;

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

/// Panics where words are outside, or on others.
pub(crate) fn check(svg: &str) {
    let words = words(svg);
    assert!(words.len() > 10, "{svg}");
    for (index, one) in words.iter().enumerate() {
        assert!(one.left >= 0 && one.right <= WIDTH + 10, "outside: {}", one.text);
        for other in &words[index + 1..] {
            let separate = one.right <= other.left || other.right <= one.left;
            assert!(
                separate || (one.y - other.y).abs() >= 11,
                "{:?} is on {:?}",
                one.text,
                other.text
            );
        }
    }
}
