//! The escaping of values in scripts.

use std::fmt;

use askama::filters::Escaper;

/// Keeps a value inside a string of JavaScript or Python in single quotes, or inside a comment of one line.
#[derive(Clone, Copy, Default)]
pub(super) struct Literal;

impl Escaper for Literal {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '\\' | '\'' => write!(to, "\\{c}"),
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => write!(to, "\\u{:04x}", u32::from(c)),
            _ => to.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_neither_its_string_nor_its_line() {
        let mut written = String::new();
        Literal.write_escaped_str(&mut written, "it's \\ a \"line\"\r\nor two\u{2028}").unwrap();
        assert_eq!(written, r#"it\'s \\ a "line"\u000d\u000aor two\u2028"#);
    }
}
