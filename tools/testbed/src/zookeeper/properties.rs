//! Files of properties, as Java reads them.

/// Returns a line of such a file. Java reads it as Latin-1.
pub(super) fn escaped(line: &str) -> String {
    line.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(b'\\') => r"\\".to_owned(),
            Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
            _ => format!(r"\u{unit:04x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_ascii_are_escaped_in_utf_16() {
        assert_eq!(escaped(r"/tmp/ü\x"), r"/tmp/\u00fc\\x");
        assert_eq!(escaped("/tmp/秒🙂"), r"/tmp/\u79d2\ud83d\ude42");
    }
}
