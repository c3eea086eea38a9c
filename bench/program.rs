//! How the programs of this package begin and end, and what they say when they cannot do what they are asked to.

use std::error::Error;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use program::chain;

/// How a program ends. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is as it should be.
    Passed = 0,
    /// The report says what is not as it should be.
    Failed = 1,
    /// There is no report: a server, another program or the machine did not do its part.
    Setup = 3,
    /// The command line makes no sense.
    Usage = 64,
    /// Ctrl-C, `SIGTERM` or `SIGHUP`.
    Interrupted = 130,
}

impl Exit {
    /// The number that the shell sees.
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

/// Why a program could not do what it was asked to do.
pub trait ProgramError: Error + 'static {
    /// What the program exits with because of this error.
    fn exit(&self) -> Exit;
}

/// Reads the command line and runs the program, whose error goes to standard error.
pub fn run_program<C: Parser, E: ProgramError>(program: impl FnOnce(C) -> Result<Exit, E>) -> ExitCode {
    let cli = match C::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Passed.into() };
        }
    };
    let exit = program(cli).unwrap_or_else(|error| {
        tell(format_args!("error: {}", chain(&error)));
        error.exit()
    });
    exit.into()
}

/// Writes a line to standard error. One that is closed leaves nobody to tell.
pub fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_documented() {
        let exits = [Exit::Passed, Exit::Failed, Exit::Setup, Exit::Usage, Exit::Interrupted];
        assert_eq!(exits.map(Exit::code), [0, 1, 3, 64, 130]);
    }
}
