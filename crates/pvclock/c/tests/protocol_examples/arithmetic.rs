//! What `bc` makes of a sum of whole numbers: + - * / % ^ and brackets.

use std::iter::Peekable;
use std::str::Chars;

/// The value of `sum`. Panics at anything else, and beyond 127 bits: no
/// example needs more.
pub(crate) fn evaluate(sum: &str) -> i128 {
    let compact: String = sum.chars().filter(|c| !c.is_whitespace()).collect();
    let mut parser = Parser { rest: compact.chars().peekable() };
    let value = parser.sum();
    assert_eq!(parser.rest.next(), None, "{sum}");
    value
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn sum(&mut self) -> i128 {
        let mut value = self.product();
        while let Some(operator) = self.rest.next_if(|c| "+-".contains(*c)) {
            let right = self.product();
            let signed = if operator == '-' { -right } else { right };
            value = value.checked_add(signed).unwrap();
        }
        value
    }

    fn product(&mut self) -> i128 {
        let mut value = self.power();
        while let Some(operator) = self.rest.next_if(|c| "*/%".contains(*c)) {
            let right = self.power();
            value = match operator {
                '*' => value.checked_mul(right),
                '/' => value.checked_div(right),
                _ => value.checked_rem(right),
            }
            .unwrap();
        }
        value
    }

    fn power(&mut self) -> i128 {
        let base = self.atom();
        if self.rest.next_if_eq(&'^').is_none() {
            return base;
        }
        let exponent = u32::try_from(self.power()).unwrap();
        base.checked_pow(exponent).unwrap()
    }

    fn atom(&mut self) -> i128 {
        if self.rest.next_if_eq(&'-').is_some() {
            return -self.atom();
        }
        if self.rest.next_if_eq(&'(').is_some() {
            let value = self.sum();
            assert_eq!(self.rest.next(), Some(')'));
            return value;
        }
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().unwrap()
    }
}

#[test]
fn sums_are_done_as_bc_does_them() {
    for (sum, value) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2 * 2", 6),
        ("7 % 4 - 10", -7),
        ("2^(64 + 31) / 2^94", 2),
        ("2^3^2", 512),
        ("10 + (-3) / 2", 9),
    ] {
        assert_eq!(evaluate(sum), value, "{sum}");
    }
}
