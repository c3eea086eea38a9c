//! The words of a command line, split as a POSIX shell splits them.
//!
//! A request is never run by a shell. So what a shell would expand, pipe or start is refused and not passed on as text.
//! `$'…'` is beyond POSIX: browsers write it when they copy a request as `curl`.

use std::iter::Peekable;
use std::str::Chars;

/// Characters that end a word, and start something else, outside of quotes.
const OPERATORS: &str = "|&;<>()`";

/// Splits a command line into words.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut splitter = Splitter { rest: line.chars().peekable(), word: Vec::new(), words: Vec::new(), is_open: false };
    splitter.split()?;
    Ok(splitter.words)
}

struct Splitter<'a> {
    rest: Peekable<Chars<'a>>,
    /// The word so far. `$'\xe2\x82\xac'` gives a character byte by byte.
    word: Vec<u8>,
    words: Vec<String>,
    /// Whether a word has begun. `''` is an empty one.
    is_open: bool,
}

impl Splitter<'_> {
    fn split(&mut self) -> Result<(), String> {
        while let Some(letter) = self.rest.next() {
            match letter {
                ' ' | '\t' | '\r' | '\n' => self.close()?,
                '\'' => self.single()?,
                '"' => self.double()?,
                '\\' => self.escaped()?,
                '$' if self.rest.next_if_eq(&'\'').is_some() => self.ansi()?,
                '$' => self.dollar()?,
                _ if OPERATORS.contains(letter) => {
                    return Err(format!("a shell reads {letter} as a command of its own; put the text in quotes"));
                }
                _ => self.add(letter),
            }
        }
        self.close()
    }

    fn add(&mut self, letter: char) {
        self.is_open = true;
        self.word.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn close(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_open) {
            let word = String::from_utf8(std::mem::take(&mut self.word));
            self.words.push(word.map_err(|_| "the escapes of a $'…' are not UTF-8; write the characters themselves")?);
        }
        Ok(())
    }

    /// Reads on after `'`: no character is special.
    fn single(&mut self) -> Result<(), String> {
        self.is_open = true;
        loop {
            match self.rest.next().ok_or_else(|| unclosed("'"))? {
                '\'' => return Ok(()),
                letter => self.add(letter),
            }
        }
    }

    /// Reads on after `"`.
    fn double(&mut self) -> Result<(), String> {
        self.is_open = true;
        loop {
            match self.rest.next().ok_or_else(|| unclosed("\""))? {
                '"' => return Ok(()),
                '\\' => match self.rest.next().ok_or_else(|| unclosed("\""))? {
                    '\n' => {}
                    letter @ ('"' | '\\' | '$' | '`') => self.add(letter),
                    letter => {
                        self.add('\\');
                        self.add(letter);
                    }
                },
                '$' => self.dollar()?,
                '`' => return Err("a shell runs the command in `…`; write the text in '…'".to_owned()),
                letter => self.add(letter),
            }
        }
    }

    /// Reads on after a backslash outside of quotes. At the end of a line, the next one continues it.
    fn escaped(&mut self) -> Result<(), String> {
        if self.rest.peek() == Some(&'\r') {
            self.rest.next();
        }
        match self.rest.next() {
            Some('\n') => Ok(()),
            Some(letter) => {
                self.add(letter);
                Ok(())
            }
            None => Err("the line ends after a backslash; remove it, or write the next line".to_owned()),
        }
    }

    /// Reads on after a `$` that begins no `$'…'`.
    fn dollar(&mut self) -> Result<(), String> {
        let begins = |next: &char| next.is_ascii_alphanumeric() || "_{(*@#?$!-".contains(*next);
        if self.rest.peek().is_some_and(begins) {
            return Err("a shell expands what follows $, and no shell runs here; write {{env.NAME}} for a variable, \
                        or put the text in '…'"
                .to_owned());
        }
        self.add('$');
        Ok(())
    }

    /// Reads on after `$'`: the escapes of C.
    fn ansi(&mut self) -> Result<(), String> {
        self.is_open = true;
        loop {
            match self.rest.next().ok_or_else(|| unclosed("$'"))? {
                '\'' => return Ok(()),
                '\\' => self.ansi_escape()?,
                letter => self.add(letter),
            }
        }
    }

    fn ansi_escape(&mut self) -> Result<(), String> {
        match self.rest.next().ok_or_else(|| unclosed("$'"))? {
            'n' => self.add('\n'),
            'r' => self.add('\r'),
            't' => self.add('\t'),
            'a' => self.add('\u{7}'),
            'b' => self.add('\u{8}'),
            'e' | 'E' => self.add('\u{1b}'),
            'f' => self.add('\u{c}'),
            'v' => self.add('\u{b}'),
            'x' => {
                let byte = self.digits(16, 2).ok_or("\\x in $'…' needs hexadecimal digits")?;
                self.word.extend(u8::try_from(byte));
            }
            'u' => self.unicode(4)?,
            'U' => self.unicode(8)?,
            letter @ ('\\' | '\'' | '"' | '?') => self.add(letter),
            letter @ '0'..='7' => {
                let first = letter.to_digit(8).unwrap_or_default();
                let byte = (0..2).fold(first, |byte, _| self.digits(8, 1).map_or(byte, |digit| byte * 8 + digit));
                self.word.extend(u8::try_from(byte & 0xff));
            }
            letter => return Err(format!("\\{letter} in $'…' is no escape of a shell; write the character itself")),
        }
        Ok(())
    }

    /// Adds the character that hexadecimal digits name. Browsers write a rare one as two surrogates.
    fn unicode(&mut self, length: usize) -> Result<(), String> {
        let none = || format!("\\u in $'…' needs {length} hexadecimal digits of a character");
        let mut code = self.digits(16, length).ok_or_else(none)?;
        if (0xd800..0xdc00).contains(&code) {
            let has_second = self.rest.next_if_eq(&'\\').and_then(|_| self.rest.next_if_eq(&'u')).is_some();
            let second = has_second.then(|| self.digits(16, 4)).flatten();
            let second = second.filter(|second| (0xdc00..0xe000).contains(second)).ok_or_else(none)?;
            code = 0x1_0000 + ((code - 0xd800) << 10) + (second - 0xdc00);
        }
        self.add(char::from_u32(code).ok_or_else(none)?);
        Ok(())
    }

    /// Takes up to `max` digits. `None` if there is none.
    fn digits(&mut self, radix: u32, max: usize) -> Option<u32> {
        let mut number = None;
        for _ in 0..max {
            let Some(digit) = self.rest.next_if(|letter| letter.is_digit(radix)) else { break };
            number = Some(number.unwrap_or(0) * radix + digit.to_digit(radix)?);
        }
        number
    }
}

fn unclosed(quote: &str) -> String {
    let end = quote.trim_start_matches('$');
    format!("the text after {quote} has no end; write the closing {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for (line, expected) in [
            ("curl  http://a/\t-I", &["curl", "http://a/", "-I"][..]),
            (r#"a'b c'"d e"\ f"#, &["ab cd e f"]),
            (r"'a\n' 'it'\''s'", &[r"a\n", "it's"]),
            (r#""a\"b\\c\d""#, &[r#"a"b\c\d"#]),
            ("'' \"\" x", &["", "", "x"]),
            ("curl \\\n  -d 'a\nb' \\\r\n -s\n", &["curl", "-d", "a\nb", "-s"]),
            ("{{url}}/a?b={{c}} a$ \"$\" '$HOME `x`'", &["{{url}}/a?b={{c}}", "a$", "$", "$HOME `x`"]),
            ("\"a\\\nb\" \\$HOME \"\\$HOME\"", &["ab", "$HOME", "$HOME"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn a_quoted_text_of_a_browser_is_read() {
        for (line, expected) in [
            (r"$'it\'s \u0021 \\ \x41\101'", r"it's ! \ AA"),
            (r"$'\ud83d\ude00\u00e9\U0001F600'", "😀é😀"),
            (r"$'a\r\n\tb'c", "a\r\n\tbc"),
            (r"$'\xe2\x82\xac'", "€"),
            (r#"$'{"a":"\"\?"}'"#, r#"{"a":""?"}"#),
        ] {
            assert_eq!(words(line), [expected], "{line}");
        }
    }

    #[test]
    fn what_only_a_shell_could_do_is_refused() {
        for (line, expected) in [
            ("curl http://a/?b=1&c=2", "a shell reads & as a command of its own; put the text in quotes"),
            ("curl http://a/ | jq .", "a shell reads | as a command"),
            ("curl -H \"a: $TOKEN\"", "write {{env.NAME}} for a variable"),
            ("curl $(cat url)", "a shell expands what follows $"),
            ("curl \"`cat url`\"", "a shell runs the command in `…`"),
            ("curl 'http://a/", "the text after ' has no end; write the closing '"),
            ("curl \"http://a/", "the text after \" has no end"),
            ("curl $'a", "the text after $' has no end; write the closing '"),
            ("curl a\\", "the line ends after a backslash"),
            (r"$'\ud83d'", "\\u in $'…' needs 4 hexadecimal digits"),
            (r"$'\xff'", "are not UTF-8"),
            (r"$'\q'", r"\q in $'…' is no escape"),
        ] {
            let refused = split(line).unwrap_err();
            assert!(refused.contains(expected), "{line}: {refused}");
        }
    }
}
