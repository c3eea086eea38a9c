//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use program::{Epilogue, Exit};

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("compares the work tree with the branch main", "bench-compare --base main"),
            ("compares the handover benches only, by wall clock", "bench-compare --base main --only wall-clock handover"),
            ("prints the table once more", "bench-compare --recorded target/bench-compare/results"),
        ])
        .note(TABLE)
        .note(
            "Times are taken in the order base, head, head, base. A time is regressed if head is slower in both halves, the \
             intervals do not meet, and the ratio is above 1.3 and above 1 + 3 times the noise of base. Instructions are \
             regressed above +5 %.",
        )
        .note(
            "The same toolchain builds both revisions. Base is checked out and built below target/bench-compare, where the \
             results and logs stay.",
        )
        .exit_status(&[
            (Exit::Passed, ": no bench is regressed"),
            (Exit::Failed, ": a bench is regressed"),
            (Exit::Setup, ", so there is no comparison"),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

const TABLE: &str = "Columns of the table: base and head are the time of one round (the geometric mean of both halves) or instructions. \
    The interval belongs to head ÷ base, and holds if the 95 % intervals of all four times hold. Base noise and head noise are the \
    differences between the halves of a revision. The verdict is faster, slower, regressed, ~ (no difference that counts) or ? (cannot tell: the \
    noise allows a slowdown by more than 1.3). A bench that only one revision has is new or deleted.";

/// Compares the benches of two revisions on this machine: base is checked out, head is the work tree as it is on disk.
#[derive(Debug, Parser)]
#[command(name = "bench-compare", version, max_term_width = 100, after_help = epilogue().to_string())]
pub(crate) struct Cli {
    #[command(flatten)]
    source: Source,
    /// Text that the names of the benches contain [default: all benches]
    filter: Option<String>,
    /// Kind of benches to compare [default: both, in about twenty minutes and one minute after the build]
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "recorded")]
    only: Option<Kind>,
    /// Takes fewer and shorter samples: a third of the time, and wider intervals
    #[arg(long, conflicts_with = "recorded")]
    short: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// Revision to compare with: a commit, a branch or a tag
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Folder with the results of an earlier comparison, which are judged again without measuring
    #[arg(long, value_name = "DIR")]
    recorded: Option<PathBuf>,
}

/// The kinds of benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Instructions, counted by callgrind: the same whatever else the machine does
    Instructions,
    /// Times, measured by criterion
    WallClock,
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Task {
    Measure(Measured),
    Judge { recorded: PathBuf, filter: Option<String> },
}

/// What to measure.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) base: String,
    pub(crate) filter: Option<String>,
    pub(crate) only: Option<Kind>,
    pub(crate) short: bool,
}

impl Cli {
    pub(crate) fn task(self) -> Task {
        let Self { source: Source { base, recorded }, filter, only, short } = self;
        match (base, recorded) {
            (Some(base), _) => Task::Measure(Measured { base, filter, only, short }),
            (None, recorded) => Task::Judge { recorded: recorded.unwrap_or_default(), filter },
        }
    }
}
