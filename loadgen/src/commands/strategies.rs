//! The `strategies` command: what a service can do.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use confique::Layer as _;
use program::{Epilogue, Interrupt};

use crate::commands::before;
use crate::config::service::{ServiceFlags, ServicePlan};
use crate::config::values::{one_program, parse_url, program_parser};
use crate::error::{Error, Exit};
use crate::lab::service::Service;
use crate::lab::source::{Program, ServiceSettings};
use crate::output::Output;
use crate::report::terminal;

#[derive(Debug, Args)]
pub(crate) struct StrategiesArgs {
    /// Base URL of an instance that runs already [default: the program of the service is asked]
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) target: Option<String>,
    /// Program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", value_parser = program_parser(), conflicts_with = "target")]
    pub(crate) demo_service: Vec<Program>,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("asks the program of the service", "loadgen strategies"),
            ("asks a running instance", "loadgen strategies --target http://a:8080"),
        ])
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, ""), (Exit::Interrupted, "")])
}

/// Prints the strategies of a running service, or of the program of the service.
pub(super) async fn strategies(
    args: &StrategiesArgs,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let strategies = match &args.target {
        Some(url) => interrupt.or(Service::new(vec![url.clone()], String::new())?.strategies()).await?,
        None => {
            let usual = ServicePlan::of(ServiceFlags::empty())?.start(1, Duration::from_secs(5));
            let usual = ServiceSettings { programs: one_program(args.demo_service.clone(), "strategies")?, ..usual };
            interrupt.or(before::offered(&usual)).await?
        }
    };
    output.show(&terminal::strategies(&strategies, output.columns()))?;
    Ok(Exit::Passed.into())
}
