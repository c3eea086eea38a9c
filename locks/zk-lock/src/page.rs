//! Pages that describe the command line to other programs.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    /// The script that completes the command line in a shell.
    Completions(Shell),
    /// The manual page, for `man`.
    Manual,
}

impl Page {
    pub(crate) fn text(self, mut command: Command) -> String {
        let mut text = Vec::new();
        match self {
            Self::Completions(shell) => clap_complete::generate(shell, &mut command, "zk-lock", &mut text),
            Self::Manual => Man::new(command).render(&mut text).expect("BUG: a vector takes every text"),
        }
        let text = String::from_utf8_lossy(&text);
        match self {
            Self::Completions(_) => text.into_owned(),
            Self::Manual => with_headings(&text),
        }
    }
}

/// Gives each part of the text below the options its heading, and keeps the lines as they are.
fn with_headings(page: &str) -> String {
    let (options, details) = page.split_once(".SH EXTRA\n").unwrap_or((page, ""));
    let details = details.lines().map(|line| match (line.strip_prefix("  "), line.strip_suffix(':')) {
        (Some(indented), _) => format!("\\&{indented}\n"),
        (None, Some(heading)) => format!(".SH \"{}\"\n.nf\n.in 2n\n", heading.to_uppercase()),
        (None, None) => format!("{line}\n"),
    });
    options.to_owned() + &details.collect::<String>()
}
