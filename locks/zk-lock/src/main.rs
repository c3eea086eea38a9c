//! `zk-lock`: runs a command while it holds a ZooKeeper lock, shows who holds one, or asks for it back.
//!
//! [`cli`] and [`recipe`] read the command line, and [`hints`] explains a refusal. [`page`] describes the command line to shells and to
//! `man`. [`run`] waits for the lock, and [`hold`] watches over the hold. [`job`] is the command with all that it starts. [`list`] shows
//! a queue, and asks its holders for the lock.

mod cli;
mod error;
mod help;
mod hints;
mod page;
mod recipe;
mod server;

mod hold;
mod job;
mod list;
mod permits;
mod run;

mod notices;
mod os;
mod output;
#[cfg(target_os = "linux")]
mod processes;
mod signals;

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use crate::cli::{Cli, Task};
use crate::error::{EXIT_NOT_GRANTED, EXIT_SYSTEM, EXIT_USAGE, Error};
use crate::notices::Notices;
use crate::run::Finish;
use crate::signals::Signals;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(stop) => {
            let stop = hints::with_tips(stop, env::args_os().skip(1));
            let printed = output::is_read(stop.print().and_then(|()| io::stdout().flush()));
            return match printed {
                // If the usage cannot be written, nothing is left to do.
                _ if stop.use_stderr() => EXIT_USAGE.into(),
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let _ = writeln!(io::stderr(), "zk-lock: cannot write the help: {error}");
                    EXIT_SYSTEM.into()
                }
            };
        }
    };
    let notices = Notices::start(cli.is_verbose());
    let is_quiet = cli.is_quiet();
    let finish = start(cli, &notices).unwrap_or_else(|error| {
        let status = error.exit_status();
        if !(is_quiet && status == EXIT_NOT_GRANTED) {
            notices.say(crate::error::chain(&error));
        }
        Finish::Status(status)
    });
    notices.finish();
    match finish {
        Finish::Status(status) => status.into(),
        Finish::Signal(signal) => signals::end_by(signal),
    }
}

fn start(cli: Cli, notices: &Notices) -> Result<Finish, Error> {
    let task = cli.resolve(|name| env::var_os(name))?;
    // The session lives on a thread of its own, so that a command that is slow to start cannot cost the lock. This
    // thread is the one that starts it, as it lasts as long as the process: Linux ends a command with the thread that
    // started it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(Error::system("start the runtime"))?;
    let finish = runtime.block_on(async {
        let signals = Signals::catch()?;
        match task {
            Task::Run(settings) => run::run(&settings, signals, notices).await,
            Task::List(settings) => list::list(&settings, signals).await,
            Task::Print(page) => output::print(&page.text(Cli::command()), "write the page"),
        }
    });
    // Nothing waits for the tasks that are left there.
    runtime.shutdown_background();
    finish
}
