//! Standard output, reserved for what the user asked for.

use std::fs::File;
use std::os::fd::AsFd;

use program::{FromSystem as _, locale};
use terminal_size::{Width, terminal_size_of};

use crate::error::Error;

/// The only way to this program's standard output.
pub(crate) struct Output(File);

impl Output {
    /// Takes standard output, so that nothing else that prints reaches it.
    ///
    /// Goose prints a line for every attack, and logs there. No setting of it prevents that. Both would spoil a table or a
    /// pipe, and its `println!` would panic at a closed pipe. Descriptor 1 leads to `/dev/null` from here on.
    pub(crate) fn take() -> Result<Output, Error> {
        let refused = || Error::system("take standard output");
        let ours = std::io::stdout().as_fd().try_clone_to_owned().map_err(refused())?;
        let nowhere = File::options().write(true).open("/dev/null").map_err(refused())?;
        nix::unistd::dup2_stdout(&nowhere).map_err(|errno| refused()(errno.into()))?;
        Ok(Output(File::from(ours)))
    }

    /// Columns of the terminal. `None`: standard output is none.
    pub(crate) fn columns(&self) -> Option<u16> {
        terminal_size_of(&self.0).map(|(Width(columns), _)| columns)
    }

    /// Prints a text for people, in the characters of their locale.
    pub(crate) fn show(&mut self, text: &str) -> Result<(), Error> {
        self.print(&locale::shown(text))
    }

    /// Prints a text for programs. A reader that closes the pipe, as `head` does, is no error.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Error> {
        program::write_text(&self.0, text).map_err(Error::system("write to standard output"))
    }
}
