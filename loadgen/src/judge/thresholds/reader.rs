//! The grammar of a rule, and the errors of a wrong one.

use program::did_you_mean;

use crate::judge::metrics::{Kind, Metric, OVERSELL_RATE};

/// How a figure is compared with the value of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

/// The longest first, as `<` begins `<=`.
pub(super) const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Comparison {
    pub(super) fn is_met(self, figure: f64, value: f64) -> bool {
        match self {
            Comparison::Less => figure < value,
            Comparison::AtMost => figure <= value,
            #[expect(clippy::float_cmp, reason = "counts are whole, and a rule that says so means it")]
            Comparison::Equal => figure == value,
            Comparison::AtLeast => figure >= value,
            Comparison::Greater => figure > value,
        }
    }
}

/// Returns names of the figures that a rule may be about.
pub(crate) fn metric_names(metrics: &[&Metric]) -> String {
    metrics.iter().map(|metric| metric.key).collect::<Vec<_>>().join(", ")
}

/// Reads a rule from left to right.
pub(super) struct Reader<'a> {
    rule: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Stands at the beginning of the rule.
    pub(super) fn new(rule: &'a str) -> Reader<'a> {
        Reader { rule, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.rule[self.at..]
    }

    pub(super) fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    pub(super) fn space(&mut self) {
        self.word(char::is_whitespace);
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let taken = self.rest().starts_with(sign);
        self.at += if taken { sign.len() } else { 0 };
        taken
    }

    pub(super) fn users(&mut self) -> Result<u32, String> {
        let at = self.at;
        let digits = self.word(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| Reader { at, ..*self }.wrong("a number of users is expected here"))
    }

    pub(super) fn metric(&mut self, metrics: &[&'static Metric]) -> Result<&'static Metric, String> {
        let at = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        let metric = metrics.iter().copied().find(|metric| metric.key == name);
        metric.ok_or_else(|| {
            let meant = did_you_mean(name, metrics.iter().map(|metric| metric.key));
            let names = metric_names(metrics);
            Reader { at, ..*self }.wrong(&format!("a metric is expected here, one of {names}{meant}"))
        })
    }

    /// Reads the rest of the rule, in the unit of the metric. Refuses a value that decides the rule before anything is
    /// measured.
    pub(super) fn value(&self, metric: &Metric, comparison: Comparison) -> Result<f64, String> {
        let text = self.rest().trim_end();
        let (value, example) = match metric.kind {
            // humantime knows no fractions, which a rule may well have.
            Kind::Time => (time_ms(text), "a time is expected here, such as 250ms or 1.5s"),
            Kind::Share => (share_of(text), "a share is expected here, such as 5% or 0.05"),
            Kind::Count => (whole(text), "a whole number is expected here, such as 0 or 20"),
            Kind::Number | Kind::Ratio => (number(text), "a number is expected here, such as 2 or 1.5"),
        };
        // More units may be oversold than there are.
        let is_of_whole = metric.kind == Kind::Share && metric.key != OVERSELL_RATE.key;
        let most = if is_of_whole { 1.0 } else { f64::INFINITY };
        // A share above one has its sign: 5 is more likely meant as 5 %.
        let most_written = if metric.kind == Kind::Share && !text.ends_with('%') { 1.0 } else { most };
        let value = value.filter(|value| *value <= most_written).ok_or_else(|| self.wrong(example))?;
        // No figure is below zero.
        let decided = match comparison {
            Comparison::Less => (value <= 0.0).then_some("never"),
            Comparison::Greater => (value >= most).then_some("never"),
            Comparison::AtLeast => (value <= 0.0).then_some("always"),
            Comparison::AtMost => (value >= most).then_some("always"),
            Comparison::Equal => None,
        };
        match decided {
            Some(when) => Err(self.wrong(&format!("a rule that is {when} met says nothing; write another value here"))),
            None => Ok(value),
        }
    }

    pub(super) fn wrong(&self, what: &str) -> String {
        let before = self.rule[..self.at].chars().count();
        format!("{what}\n  {}\n  {}^", self.rule, " ".repeat(before))
    }
}

fn time_ms(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let factor = match &text[number.len()..] {
        "us" | "µs" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        _ => return None,
    };
    Some(self::number(number.trim_end())? * factor)
}

fn share_of(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Some(number(percent.trim_end())? / 100.0),
        None => number(text),
    }
}

/// Digits, and a fraction if there is one: no sign, no exponent, no word.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

fn whole(text: &str) -> Option<f64> {
    number(text).filter(|number| number.fract() == 0.0)
}
