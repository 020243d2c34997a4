//! The part of PromQL that our rules and those of others use, as a tree.
//!
//! What is not in it is refused, so that no rule is half understood. Grammar and
//! precedence: prometheus.io/docs/prometheus/latest/querying/operators.

mod parse;

pub(crate) use parse::duration_ms;

pub use parse::parse;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// Series.
    Select(Selector),
    /// A function of series, and of a number.
    Call(Function, Box<Expr>, Option<f64>),
    /// Two of them.
    Binary(Operator, Box<Expr>, Box<Expr>, Option<Vec<String>>),
}

/// Series of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// Their name.
    pub name: String,
    /// What their labels are.
    pub matchers: Vec<Matcher>,
    /// The samples of so long, ms, rather than the last.
    pub range_ms: Option<i64>,
    /// So long ago, ms.
    pub offset_ms: i64,
    /// Its number, in the order of the text: whoever evaluates knows its series by it.
    pub number: usize,
}

impl Selector {
    /// All series of a name, now.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, matchers: Vec::new(), range_ms: None, offset_ms: 0, number: 0 }
    }
}

/// What a label is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub label: String,
    /// Its values: each a list of literals with anything between them.
    pub values: Vec<Vec<String>>,
}

impl Matcher {
    /// Whether a value is one of them.
    pub fn takes(&self, value: &str) -> bool {
        self.values.iter().any(|parts| is_like(value, parts))
    }
}

/// Whether a text consists of these parts, with anything between them.
fn is_like(text: &str, parts: &[String]) -> bool {
    let [first, between @ .., last] = parts else {
        return parts.first().is_some_and(|only| only == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for part in between {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The size.
    Abs,
    /// No less than the number.
    ClampMin,
    /// By how much a counter grew.
    Increase,
    /// The same, a second.
    Rate,
    /// The slope of the line through the samples, a second.
    Deriv,
    /// The least sample.
    MinOverTime,
    /// The largest.
    MaxOverTime,
}

impl Function {
    /// It is of the samples of a while; else of the last ones.
    pub(crate) const fn is_of_range(self) -> bool {
        !matches!(self, Self::Abs | Self::ClampMin)
    }

    const ALL: [(&'static str, Self); 7] = [
        ("abs", Self::Abs),
        ("clamp_min", Self::ClampMin),
        ("increase", Self::Increase),
        ("rate", Self::Rate),
        ("deriv", Self::Deriv),
        ("min_over_time", Self::MinOverTime),
        ("max_over_time", Self::MaxOverTime),
    ];
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Operator {
    Or,
    And,
    Unless,
    Equal,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    pub(crate) const fn is_of_sets(self) -> bool {
        matches!(self, Self::Or | Self::And | Self::Unless)
    }

    /// By how firmly they bind.
    const LEVELS: [&'static [(&'static str, Self)]; 5] = [
        &[("or", Self::Or)],
        &[("and", Self::And), ("unless", Self::Unless)],
        &[
            ("==", Self::Equal),
            (">=", Self::GreaterOrEqual),
            ("<=", Self::LessOrEqual),
            (">", Self::Greater),
            ("<", Self::Less),
        ],
        &[("+", Self::Add), ("-", Self::Subtract)],
        &[("*", Self::Multiply), ("/", Self::Divide)],
    ];
}
