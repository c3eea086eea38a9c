//! Exit codes.

use std::process::ExitCode;

/// How a program ends. The numbers are part of the interface of every program; its help lists those that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for was done, and everything that was checked holds.
    Passed = 0,
    /// Something that was checked does not hold. The report says what.
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
    /// Returns the number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
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
        let exits = [Exit::Passed, Exit::Failed, Exit::PromiseBroken, Exit::Setup, Exit::ClientLimited];
        assert_eq!(exits.map(Exit::code), [0, 1, 2, 3, 4]);
        assert_eq!([Exit::Usage, Exit::Interrupted].map(Exit::code), [64, 130]);
    }
}
