//! The common parts of the command-line programs of the workspace: command line, help text, errors, progress, exit
//! codes, and the stop at a signal. The features leave out what a program does not need.

mod chain;
mod exit;
mod hangup;
mod help;
#[cfg(feature = "interrupt")]
mod interrupt;
pub mod locale;
mod open_files;
mod postgres;
#[cfg(feature = "progress")]
mod progress;
mod renamed;
mod run;
mod suggest;
mod system;

pub use chain::chain;
pub use exit::Exit;
pub use hangup::is_hangup_ignored;
pub use help::Epilogue;
#[cfg(feature = "interrupt")]
pub use interrupt::{Interrupt, Interrupted};
pub use open_files::raise_file_limit;
pub use postgres::one_postgres;
#[cfg(feature = "progress")]
pub use progress::Progress;
pub use renamed::renamed;
pub use run::{ProgramError, command_line, print, print_usage, run_program, tell, write_text};
pub use suggest::did_you_mean;
pub use system::{FromSystem, SystemError};
