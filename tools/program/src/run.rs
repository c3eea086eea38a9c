//! A run of a program, from its command line to its exit code. A closed terminal, or a reader such as `head` that ends
//! first, is no error.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::{Exit, chain};

/// The error of a program.
pub trait ProgramError: Error + 'static {
    /// Returns how the program ends because of this error.
    fn exit(&self) -> Exit;
}

/// Reads the command line and runs the program. Writes its error, with the causes, to standard error.
pub fn run_program<C: Parser, X: Into<ExitCode>, E: ProgramError>(program: impl FnOnce(C) -> Result<X, E>) -> ExitCode {
    match command_line().map(program) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => {
            tell(format_args!("error: {}", chain(&error)));
            error.exit().into()
        }
        Err(exit) => exit,
    }
}

/// Reads the command line.
///
/// # Errors
///
/// The exit code, if the command line is wrong or asks for help. The answer has been printed then.
pub fn command_line<C: Parser>() -> Result<C, ExitCode> {
    C::try_parse().map_err(|stop| print_usage(&stop))
}

/// Prints why a command line is wrong, or the help that it asks for. Returns the exit code.
pub fn print_usage(stop: &clap::Error) -> ExitCode {
    let printed = is_read(stop.print().and_then(|()| io::stdout().flush()));
    match printed {
        // Nothing is left to do when the usage cannot be written.
        _ if stop.use_stderr() => Exit::Usage.into(),
        Ok(()) => Exit::Passed.into(),
        Err(error) => {
            tell(format_args!("error: could not write to standard output: {error}"));
            Exit::Setup.into()
        }
    }
}

/// Writes a line to standard error.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a text to standard output.
///
/// # Errors
///
/// Those of [`write_text`].
pub fn print(text: &str) -> io::Result<()> {
    write_text(io::stdout(), text)
}

/// Writes a whole text. A reader that has ended, such as `head`, is no error.
///
/// # Errors
///
/// What the operating system says, such as that the disk is full.
pub fn write_text(mut to: impl Write, text: &str) -> io::Result<()> {
    is_read(to.write_all(text.as_bytes()).and_then(|()| to.flush()))
}

fn is_read(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}
