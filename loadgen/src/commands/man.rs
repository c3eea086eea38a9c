//! The `man` command.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io, iter};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use program::{Epilogue, FromSystem as _};

use crate::commands::Cli;
use crate::error::{Error, Exit};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write the pages into
    #[arg(long, value_name = "DIR", default_value = "man")]
    out: PathBuf,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[("shows the page of `compare`", "loadgen man && man man/loadgen-compare.1")])
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, "")])
}

/// Writes a manual page for the program and one for each command.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, Error> {
    let mut program = Cli::command();
    program.build();
    write(&program, &args.out).map_err(Error::system(format!("write into the folder {}", args.out.display())))?;
    Ok(Exit::Passed.into())
}

fn write(program: &Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for command in iter::once(program).chain(program.get_subcommands()) {
        let man = Man::new(command.clone());
        let mut page = Vec::new();
        man.render(&mut page)?;
        fs::write(folder.join(man.get_filename()), with_headings(&String::from_utf8_lossy(&page)))?;
    }
    Ok(())
}

/// Gives each part of an [`Epilogue`] its heading, and keeps the lines as they are.
fn with_headings(page: &str) -> String {
    let (options, epilogue) = page.split_once(".SH EXTRA\n").unwrap_or((page, ""));
    let epilogue = epilogue.lines().map(|line| match (line.strip_prefix("  "), line.strip_suffix(':')) {
        (Some(indented), _) => format!("\\&{indented}\n"),
        (None, Some(heading)) => format!(".SH \"{}\"\n.nf\n.in 2n\n", heading.to_uppercase()),
        (None, None) => format!("{line}\n"),
    });
    options.to_owned() + &epilogue.collect::<String>()
}
