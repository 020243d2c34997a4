//! From text.

use super::{Expr, Function, Matcher, Operator, Selector};

/// Parses an expression; `number` counts the selectors.
///
/// # Errors
/// What was expected, and what came.
pub fn parse(text: &str, number: &mut usize) -> Result<Expr, String> {
    let mut parser = Parser { rest: text.trim_start(), number };
    let expr = parser.binary(0)?;
    let expr = of_now(expr)?;
    if parser.rest.is_empty() { Ok(expr) } else { Err(parser.unexpected("the end")) }
}

/// Series with one value each: neither a number, which stands only to the right of an
/// operator, nor the samples of a while, which only some functions take.
fn of_now(expr: Expr) -> Result<Expr, String> {
    match &expr {
        Expr::Number(_) => Err("a number alone, or at the left of an operator".to_owned()),
        Expr::Select(selector) if selector.range_ms.is_some() => {
            Err(format!("samples of a while: {}", selector.name))
        }
        _ => Ok(expr),
    }
}

struct Parser<'t, 'n> {
    rest: &'t str,
    number: &'n mut usize,
}

/// A time, ms: `5m`.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let ms = [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let (_, ms) = ms.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<i64>().ok()?.checked_mul(ms)
}

impl<'t> Parser<'t, '_> {
    fn unexpected(&self, expected: &str) -> String {
        let found: String = self.rest.chars().take(20).collect();
        format!("expected {expected}, found {found:?}")
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }

    /// Takes a token if it is next; a word is not the begin of a longer one.
    fn takes(&mut self, token: &str) -> bool {
        let Some(after) = self.rest.strip_prefix(token) else { return false };
        let is_word = token.ends_with(|c: char| c.is_ascii_alphanumeric());
        if is_word && after.starts_with(is_of_name) {
            return false;
        }
        self.skip(token.len());
        true
    }

    fn needs(&mut self, token: &str) -> Result<(), String> {
        if self.takes(token) { Ok(()) } else { Err(self.unexpected(token)) }
    }

    fn word(&mut self) -> Result<&'t str, String> {
        let length = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        if word.is_empty() {
            return Err(self.unexpected("a name"));
        }
        self.skip(length);
        Ok(word)
    }

    /// Operators of this level and those that bind more firmly.
    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = Operator::LEVELS.get(level) else { return self.primary() };
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.takes(text)) {
            let on = if self.takes("on") { Some(self.names()?) } else { None };
            let mut right = self.binary(level + 1)?;
            let is_of_sets = operator.is_of_sets();
            if is_of_sets || !matches!(right, Expr::Number(_)) {
                right = of_now(right)?;
            }
            // Elsewhere `on` would take labels from what comes out.
            if on.is_some() && !is_of_sets {
                return Err("on, with what is no operator of sets".to_owned());
            }
            left = of_now(left)?;
            left = Expr::Binary(*operator, left.into(), right.into(), on);
        }
        Ok(left)
    }

    fn names(&mut self) -> Result<Vec<String>, String> {
        self.needs("(")?;
        let mut names = Vec::new();
        while !self.takes(")") {
            names.push(self.word()?.to_owned());
            self.takes(",");
        }
        Ok(names)
    }

    fn primary(&mut self) -> Result<Expr, String> {
        if self.takes("(") {
            let expr = self.binary(0)?;
            self.needs(")")?;
            return Ok(expr);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return self.number().map(Expr::Number);
        }
        let name = self.word()?;
        if let Some((_, function)) = Function::ALL.iter().find(|(found, _)| *found == name) {
            self.needs("(")?;
            let of = self.binary(0)?;
            let number = if self.takes(",") { Some(self.number()?) } else { None };
            self.needs(")")?;
            let has_range = matches!(&of, Expr::Select(it) if it.range_ms.is_some());
            if has_range != function.is_of_range()
                || matches!(of, Expr::Number(_))
                || number.is_some() != (*function == Function::ClampMin)
            {
                return Err(format!("{name} does not take that"));
            }
            return Ok(Expr::Call(*function, of.into(), number));
        }
        self.selector(name)
    }

    fn number(&mut self) -> Result<f64, String> {
        let is_of_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let mut length = 0;
        for (at, c) in self.rest.char_indices() {
            let is_sign = c == '-' && (at == 0 || self.rest[..at].ends_with('e'));
            if !is_of_number(c) && !is_sign {
                break;
            }
            length = at + c.len_utf8();
        }
        let number = self.rest[..length].parse().map_err(|_| self.unexpected("a number"))?;
        self.skip(length);
        Ok(number)
    }

    fn selector(&mut self, name: &str) -> Result<Expr, String> {
        let mut matchers = Vec::new();
        if self.takes("{") {
            while !self.takes("}") {
                matchers.push(self.matcher()?);
                self.takes(",");
            }
        }
        let mut range_ms = None;
        if self.takes("[") {
            range_ms = Some(self.duration()?);
            self.needs("]")?;
        }
        let offset_ms = if self.takes("offset") { self.duration()? } else { 0 };
        let number = *self.number;
        *self.number += 1;
        Ok(Expr::Select(Selector { name: name.to_owned(), matchers, range_ms, offset_ms, number }))
    }

    fn duration(&mut self) -> Result<i64, String> {
        let word = self.word()?;
        duration_ms(word).ok_or_else(|| format!("expected a time, found {word:?}"))
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        let label = self.word()?.to_owned();
        let is_pattern = self.takes("=~");
        if !is_pattern {
            self.needs("=")?;
        }
        let quoted = self.rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let Some((text, _)) = quoted else { return Err(self.unexpected("text in quotes")) };
        let literal = |text: &str| text.chars().all(|c| is_of_name(c) || " -".contains(c));
        let values: Vec<Vec<String>> = if is_pattern {
            let parts = |one: &str| one.split(".*").map(str::to_owned).collect();
            text.split('|').map(parts).collect()
        } else {
            vec![vec![text.to_owned()]]
        };
        if !values.iter().flatten().all(|part| literal(part)) {
            return Err(format!("expected literals, | and .*, found {text:?}"));
        }
        self.skip(text.len() + 2);
        Ok(Matcher { label, values })
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_prometheus() {
        let parsed = |text| parse(text, &mut 0).unwrap();
        for (text, with_parentheses) in [
            ("a or b and c > d + e * 3", "a or (b and (c > (d + (e * 3))))"),
            ("a - b - c", "(a - b) - c"),
            ("rate(a[5m]) / b > 0.1", "(rate(a[5m]) / b) > 0.1"),
            ("a unless b offset 5m", "a unless (b offset 5m)"),
        ] {
            assert_eq!(parsed(text), parsed(with_parentheses), "{text}");
        }
        assert_eq!(parsed("a > 5e-07"), parsed("a>0.0000005"));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for wrong in [
            "",
            "a >",
            "a[5x]",
            "a{b=\"c}",
            "a{b=~\"c+\"}",
            "a{b!=\"c\"}",
            "sum(a)",
            "a b",
            "a and on b",
            "a > bool b",
            "quantile(0.5, a)",
            "0.05 < a",
            "1",
            "a or 1",
            "a[5m]",
            "a[5m] > 1",
            "a > a[5m]",
            "abs(a[5m])",
            "abs(1)",
            "abs(a, 1)",
            "clamp_min(a)",
            "increase(a)",
            "increase(abs(a))",
            "increase(a[5m], 1)",
            "a > on (b) c",
        ] {
            assert!(parse(wrong, &mut 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_are_of_the_whole_value() {
        let mut number = 0;
        let text = "a{kind=~\"pause|.*migrated.*\"}";
        let Ok(Expr::Select(selector)) = parse(text, &mut number) else { panic!() };
        let takes = |value| selector.matchers[0].takes(value);
        assert!(takes("pause") && takes("migrated") && takes("restored|migrated|x"));
        assert!(!takes("pauses") && !takes("a pause") && !takes("migrate"));
    }
}
