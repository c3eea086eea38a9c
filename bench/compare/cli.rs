//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

const HELP: &str = "\
The table, on standard output:
    base, head   the time of one round, as the geometric mean of both halves, or instructions
    head ÷ base  the ratio
    interval     where the ratio lies if the 95 % intervals of all four times hold
    ... noise    by how much a revision differed from itself, half from half
    verdict      faster, slower, ~ (no significant difference), or regressed

Times are taken in the order base, head, head, base. They are regressed if head is slower in both halves, the intervals
do not meet, and the ratio is above 1.3 and above 1 + 3 times the noise of base. Instructions are regressed above +5 %.
Both revisions are built by the same toolchain. Base is checked out and built below target/bench-compare, where the
results and logs stay.

Exit codes:
    0  no bench is regressed
    1  a bench is regressed
    3  the comparison could not be made
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)";

/// Compares the benches of two revisions on this machine: base is checked out, head is the work tree as it is on disk.
#[derive(Debug, Parser)]
#[command(name = "bench-compare", version, after_help = HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    source: Source,
    /// Only benches that have this in their names
    filter: Option<String>,
    /// Compare only one kind: wall clock takes some twenty minutes, instructions one, beside the building
    #[arg(long, value_enum, conflicts_with = "recorded")]
    only: Option<Kind>,
    /// Take fewer and shorter samples: a third of the time, and wider intervals
    #[arg(long, conflicts_with = "recorded")]
    short: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The revision to compare with: a commit, a branch or a tag
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Judge again what an earlier comparison has left in a folder (target/bench-compare/results), and measure nothing
    #[arg(long, value_name = "FOLDER")]
    recorded: Option<PathBuf>,
}

/// The kinds of benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Counted by callgrind, the same whatever else the machine does
    Instructions,
    /// Timed by criterion
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
