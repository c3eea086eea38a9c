//! Exit codes.

use std::process::ExitCode;

/// The end of a program. Numbers and meanings are part of the interface of every program. Its help lists those that it
/// uses, and `docs/using.md` lists all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The program did its task, and every check passed.
    Passed = 0,
    /// A check failed. The report says which.
    Failed = 1,
    /// A strategy broke its promise (`loadgen`).
    PromiseBroken = 2,
    /// A server, another program or the machine did not do its part.
    Setup = 3,
    /// The load generator was the bottleneck: its times say more about it than about the strategies (`loadgen`).
    ClientLimited = 4,
    /// The command line is wrong.
    Usage = 64,
    /// The program was stopped by Ctrl-C, `SIGTERM` or `SIGHUP`.
    Interrupted = 130,
}

impl Exit {
    /// Every exit.
    pub const ALL: [Self; 7] = [
        Self::Passed,
        Self::Failed,
        Self::PromiseBroken,
        Self::Setup,
        Self::ClientLimited,
        Self::Usage,
        Self::Interrupted,
    ];

    /// Returns the number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the meaning that the number has in every program.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Passed => "done, and every check passed",
            Self::Failed => "a check failed",
            Self::PromiseBroken => "a strategy broke its promise",
            Self::Setup => "a server, another program, a file or the machine failed",
            Self::ClientLimited => "the load generator was the bottleneck",
            Self::Usage => "the command line, the environment or an input file is wrong",
            Self::Interrupted => "interrupted by Ctrl-C, SIGTERM or SIGHUP",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_documented() {
        assert_eq!(Exit::ALL.map(Exit::code), [0, 1, 2, 3, 4, 64, 130]);
    }
}
