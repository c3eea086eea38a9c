//! The `completions` command.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use program::Epilogue;

use crate::commands::Cli;
use crate::error::{Error, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to write for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[("completes the commands in this shell", "source <(loadgen completions bash)")])
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, "")])
}

/// Prints the script that completes the command line in a shell.
pub(super) fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loadgen", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Passed.into())
}
