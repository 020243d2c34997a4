//! A row's form: text with typed holes.

use super::signs::RowSign;
use serde::de::value::Error;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A message's form.
#[derive(Debug)]
pub(super) struct Pattern {
    starts_anywhere: bool,
    parts: Vec<Part>,
}

/// A part of a form.
#[derive(Debug)]
enum Part {
    Text(&'static str),
    Hole { name: &'static str, kind: &'static str },
}

/// How a text fits a form.
#[derive(Debug, PartialEq)]
pub(super) enum Match<'t> {
    /// It is one, from this place on, with these fields.
    Whole(usize, Vec<(&'static str, Value<'t>)>),
    /// It ends within the form.
    Unfinished,
    /// It is none.
    None,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'t> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'t str),
    Flag(bool),
}

impl Value<'_> {
    pub(super) fn number(&self) -> Option<f64> {
        match *self {
            Self::Unsigned(n) => Some(n as f64),
            Self::Signed(n) => Some(n as f64),
            Self::Float(n) => Some(n),
            _ => None,
        }
    }

    pub(super) fn whole(&self) -> Option<i64> {
        if let Self::Signed(n) = *self { Some(n) } else { None }
    }
}

impl Pattern {
    pub(super) fn parse(text: &'static str) -> Self {
        let starts_anywhere = text.starts_with('*');
        let mut rest = text.trim_start_matches('*');
        let mut parts = Vec::new();
        while !rest.is_empty() {
            // A brace before a hole's brace is text.
            let hole = rest.match_indices('{').find(|(at, _)| !rest[at + 1..].starts_with('{'));
            let Some((start, _)) = hole else { break };
            let Some(end) = rest[start..].find('}').map(|length| start + length) else { break };
            if start > 0 {
                parts.push(Part::Text(&rest[..start]));
            }
            let (name, kind) = rest[start + 1..end]
                .split_once(':')
                .unwrap_or((&rest[start + 1..end], if end == start + 1 { "any" } else { "name" }));
            parts.push(Part::Hole { name, kind });
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest));
        }
        Self { starts_anywhere, parts }
    }

    /// The word by which lines are searched, and the text after it: the first, so that a line that
    /// breaks off after it has it.
    pub(super) fn sign(&self) -> RowSign {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(*text),
            Part::Hole { .. } => None,
        });
        let mut words =
            texts.flat_map(|text| text.split_whitespace().map(move |word| (text, word)));
        let first = words.find(|(_, word)| word.len() >= 3);
        first.map_or_else(RowSign::default, |(text, word)| {
            let next = text.split_once(word).unwrap_or_default().1;
            let is_first = matches!(self.parts.first(), Some(Part::Text(first)) if *first == text);
            RowSign { word, next, is_after_hole: text.starts_with(word) && !is_first }
        })
    }

    pub(super) fn find<'t>(&self, text: &'t str) -> Match<'t> {
        if !self.starts_anywhere {
            return self.fit(text);
        }
        let Some(Part::Text(first)) = self.parts.first() else { return Match::None };
        let word = first.split(' ').next().unwrap_or_default();
        let mut found = Match::None;
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '"') {
                continue;
            }
            match self.fit(&text[at..]) {
                Match::None => {}
                Match::Whole(_, fields) => return Match::Whole(at, fields),
                Match::Unfinished => found = Match::Unfinished,
            }
        }
        found
    }

    /// How a text fits from its start on.
    fn fit<'t>(&self, text: &'t str) -> Match<'t> {
        let mut fields = Vec::new();
        match fit(&self.parts, text, &mut fields) {
            FormFit::Whole => Match::Whole(0, fields),
            // A few letters alike are no start of a message.
            FormFit::Unfinished if text.len() >= 6 => Match::Unfinished,
            _ => Match::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum FormFit {
    Whole,
    Unfinished,
    None,
}

/// The most characters that `{}` skips: two such holes make a search quadratic.
const LONGEST_ANY: usize = 200;

fn fit<'t>(parts: &[Part], text: &'t str, fields: &mut Vec<(&'static str, Value<'t>)>) -> FormFit {
    let Some((part, parts)) = parts.split_first() else { return FormFit::Whole };
    match part {
        Part::Text(form) => match skip(form, text) {
            Ok(rest) => fit(parts, rest, fields),
            Err(fit) => fit,
        },
        Part::Hole { kind: "any", .. } => {
            let length = fields.len();
            for (at, _) in text.char_indices().take(LONGEST_ANY) {
                if fit(parts, &text[at..], fields) == FormFit::Whole {
                    return FormFit::Whole;
                }
                fields.truncate(length);
            }
            FormFit::Unfinished
        }
        Part::Hole { name, kind } => {
            let Some((value, rest)) = take(kind, text) else {
                let is_end =
                    text.trim_start_matches(['+', '-', ' ']).is_empty() || *kind == "paren";
                return if is_end { FormFit::Unfinished } else { FormFit::None };
            };
            if !name.starts_with('_') {
                fields.push((*name, value));
            }
            fit(parts, rest, fields)
        }
    }
}

/// What follows a form's text, each of whose blanks stands for one or more.
fn skip<'t>(form: &str, text: &'t str) -> Result<&'t str, FormFit> {
    let mut rest = text;
    for c in form.chars() {
        if rest.is_empty() {
            return Err(FormFit::Unfinished);
        }
        rest = match c {
            ' ' if rest.starts_with([' ', '\t']) => rest.trim_start(),
            ' ' => return Err(FormFit::None),
            _ => rest.strip_prefix(c).ok_or(FormFit::None)?,
        };
    }
    Ok(rest)
}

/// A number with its sign, and what follows it.
fn decimal(text: &str) -> Option<(&str, &str)> {
    let sign = text.len() - text.trim_start_matches(['+', '-']).len();
    let length = text[sign..].find(|c: char| !c.is_ascii_digit() && c != '.');
    let figure = text[..length.map_or(text.len(), |length| sign + length)].trim_end_matches('.');
    let rest = &text[figure.len()..];
    (sign < 2).then_some((figure, if rest == "." { "" } else { rest }))
}

/// A time, as s; parts in 10^9, as ppm.
fn seconds<'t>(kind: &str, text: &'t str) -> Option<(Value<'t>, &'t str)> {
    let (figure, rest) = decimal(text)?;
    let factor = match kind {
        "minutes" => 60.0,
        "ms" | "ppb" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => {
            let (s, rest) = super::parse_duration(text.trim_start_matches(['+', '-']))?;
            return Some((Value::Float(if text.starts_with('-') { -s } else { s }), rest));
        }
    };
    let number = figure.parse().ok().filter(|number: &f64| number.abs() < 1e21)?;
    Some((Value::Float(number * factor), rest))
}

/// A hole's value, and what follows it.
fn take<'t>(kind: &str, text: &'t str) -> Option<(Value<'t>, &'t str)> {
    let split = |is_part: fn(char) -> bool| {
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        (end > 0).then(|| text.split_at(end))
    };
    let hz = |factor: f64| {
        let (figure, rest) = decimal(text)?;
        // No counter runs outside 1 kHz to 1 THz.
        let hz = (figure.parse::<f64>().ok()? * factor).round();
        (1e3..1e12).contains(&hz).then_some((Value::Unsigned(hz as u64), rest))
    };
    match kind {
        "u" => {
            let (digits, rest) = split(|c| c.is_ascii_digit())?;
            Some((Value::Unsigned(digits.parse().ok()?), rest))
        }
        "x" => {
            let (digits, rest) = split(|c| c.is_ascii_hexdigit())?;
            Some((Value::Text(digits), rest))
        }
        "i" => {
            let (figure, rest) = decimal(text)?;
            Some((Value::Signed(figure.parse().ok()?), rest))
        }
        "f" => {
            let (figure, rest) = decimal(text)?;
            Some((Value::Float(figure.parse().ok()?), rest))
        }
        "minutes" | "ms" | "us" | "ns" | "ppb" | "duration" => seconds(kind, text),
        "mhz" => hz(1e6),
        "ghz" => hz(1e9),
        "grouped" => {
            let is_group = |c: char| c.is_ascii_digit() || "-+ ,\u{a0}\u{202f}".contains(c);
            let end = text.find(|c| !is_group(c))?;
            // A blank before the unit belongs to the form.
            let (figure, rest) = text.split_at(text[..end].trim_end().len());
            let digits: String =
                figure.chars().filter(|c| !" ,\u{a0}\u{202f}".contains(*c)).collect();
            Some((Value::Signed(digits.parse().ok()?), rest))
        }
        "clock" => {
            let (figure, rest) = text.split_once(']')?;
            Some((
                Value::Float(super::super::line::time_of_day_s(figure)?),
                &text[text.len() - rest.len() - 1..],
            ))
        }
        "date" => {
            let end = text.find(" UTC")?;
            let unix_s = super::super::line::time_of_day_s(&text[..end])?;
            Some((Value::Signed(unix_s as i64), &text[end..]))
        }
        "paren" => {
            let (inside, _) = text.split_once(')')?;
            // A figure that was broken off and joined by a blank has one word too many.
            (3..=4).contains(&inside.split_whitespace().count()).then_some(())?;
            Some((Value::Text(inside.trim()), &text[inside.len()..]))
        }
        "end" => (text.is_empty() || text.starts_with(' ')).then_some((Value::Flag(true), text)),
        "rest" => Some((Value::Text(text.trim_matches([' ', ':', '.', ')'])), "")),
        "name" => {
            let quote = text.strip_prefix('\'').unwrap_or(text);
            let end = quote.find([' ', '\'', '"']).unwrap_or(quote.len());
            let (word, rest) = quote.split_at(end);
            let rest = if quote.len() < text.len() {
                rest.strip_prefix('\'').unwrap_or(rest)
            } else {
                rest
            };
            // A program's source has a conversion in its place.
            (!word.is_empty() && !word.contains('%')).then_some((Value::Text(word), rest))
        }
        _ => None,
    }
}

impl<'de> IntoDeserializer<'de, Error> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Unsigned(n) => visitor.visit_u64(n),
            Self::Signed(n) => visitor.visit_i64(n),
            Self::Float(n) => visitor.visit_f64(n),
            Self::Text(text) => visitor.visit_borrowed_str(text),
            Self::Flag(flag) => visitor.visit_bool(flag),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
