//! The shape of every help text.

use std::fmt::{self, Write as _};

use crate::Exit;

/// Columns of a help text. Clap breaks longer lines without their indentation.
const WIDTH: usize = 80;

/// The text below the options of a help text.
#[derive(Clone, Debug, Default)]
pub struct Epilogue(String);

impl Epilogue {
    /// Adds examples: what each does, and its command.
    #[must_use]
    pub fn examples(self, examples: &[(&str, &str)]) -> Self {
        let lines = examples.iter().map(|(does, command)| format!("  # {does}\n  {command}\n"));
        self.section("Examples", &lines.collect::<String>())
    }

    /// Adds variables of the environment that have no flag, and their meanings.
    #[must_use]
    pub fn environment(self, variables: &[(&str, &str)]) -> Self {
        let width = variables.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines = variables.iter().map(|(name, meaning)| entry(&format!("  {name:width$}  "), meaning));
        self.section("Environment", &lines.collect::<String>())
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn note(mut self, text: &str) -> Self {
        self.0 += if self.0.is_empty() { "" } else { "\n" };
        self.0 += &entry("", text);
        self
    }

    /// Adds exit statuses, each with what the program says beyond the common meaning.
    #[must_use]
    pub fn exit_status(self, statuses: &[(Exit, &str)]) -> Self {
        let line = |(exit, more): &(Exit, &str)| {
            entry(&format!("  {:>3}  ", exit.code()), &format!("{}{more}", exit.meaning()))
        };
        self.section("Exit status", &statuses.iter().map(line).collect::<String>())
    }

    fn section(mut self, title: &str, lines: &str) -> Self {
        self.0 += if self.0.is_empty() { "" } else { "\n" };
        // Writing into a String cannot fail.
        let _ = write!(self.0, "{title}:\n{lines}");
        self
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

/// Returns a text with a label before its first line, and its other lines indented as far.
fn entry(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let mut lines = label.to_owned();
    let mut column = indent;
    for (number, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > WIDTH {
            // Writing into a String cannot fail.
            let _ = write!(lines, "\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_meaning_is_indented_below_its_beginning() {
        let text = Epilogue::default()
            .examples(&[("all of it", "loadgen compare")])
            .exit_status(&[(Exit::PromiseBroken, ""), (Exit::Failed, &": many words".repeat(7))])
            .to_string();
        let expected = "Examples:\n  # all of it\n  loadgen compare\n\nExit status:\n    2  a strategy broke its promise\n    1  a check failed: many words: many words: many words: many words: many\n       words: many words: many words";
        assert_eq!(text, expected);
    }
}
