//! Standard output.

use std::io::{self, ErrorKind, Write as _};

use crate::error::Error;
use crate::run::Finish;

/// Prints a text, which is all that the program was asked for.
pub(crate) fn print(text: &str, action: &'static str) -> Result<Finish, Error> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    is_read(written).map_err(Error::system(action))?;
    Ok(Finish::Status(0))
}

/// Accepts a closed pipe as the outcome of writing to standard output: a reader such as `head` closes it.
pub(crate) fn is_read(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}
