//! The characters that the user's locale has.

use std::env;
use std::ffi::OsString;

/// Returns whether the locale of the environment uses UTF-8. Without a locale it is C, as for the C library.
#[must_use]
pub fn is_utf8() -> bool {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty());
    let named =
        set(env::var_os("LC_ALL")).or_else(|| set(env::var_os("LC_CTYPE"))).or_else(|| set(env::var_os("LANG")));
    named.is_some_and(|locale| names_utf8(&locale.to_string_lossy()))
}

fn names_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns the text as the locale of the environment can show it.
#[must_use]
pub fn shown(text: &str) -> String {
    if is_utf8() { text.to_owned() } else { plain(text) }
}

/// Returns the text in ASCII, with characters of the same width.
fn plain(text: &str) -> String {
    let text = text.replace("≤ ", "<=").replace("≤\u{202f}", "<=").replace("≥ ", ">=").replace("≥\u{202f}", ">=");
    text.chars()
        .map(|character| match character {
            '\0'..='\u{7f}' => character,
            '\u{a0}' | '\u{202f}' => ' ',
            '–' | '−' | '─' => '-',
            '═' => '=',
            '÷' => '/',
            '×' => 'x',
            'µ' => 'u',
            '≤' => '<',
            '≥' => '>',
            '…' => '.',
            _ => '?',
        })
        .collect()
}

// T13
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_names_its_encoding() {
        for (locale, expected) in
            [("C", false), ("POSIX", false), ("de_DE", false), ("C.UTF-8", true), ("zh_CN.utf8", true)]
        {
            assert_eq!(names_utf8(locale), expected, "{locale}");
        }
    }

    #[test]
    fn plain_text_is_as_wide_as_it_was() {
        let text = "── p50 ÷ 3 µs × 2; – 11 of 11 (≤ 24\u{202f}%)";
        assert_eq!(plain(text), "-- p50 / 3 us x 2; - 11 of 11 (<=24 %)");
        assert_eq!(plain("plain"), "plain");
    }
}
