//! The `strategies` command: what a service can do.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use confique::Layer as _;
use program::{Epilogue, Interrupt};

use crate::commands::before;
use crate::config::service::{ServiceFlags, ServicePlan};
use crate::config::values::parse_url;
use crate::error::{Error, Exit};
use crate::lab::service::Service;
use crate::lab::source::ServiceSettings;
use crate::output::Output;
use crate::report::terminal;

#[derive(Debug, Args)]
pub(crate) struct StrategiesArgs {
    /// Base URL of an instance that runs already [default: the program of the service is asked]
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) target: Option<String>,
    /// Program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub(crate) demo_service: Option<PathBuf>,
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
            let usual = ServiceSettings { demo_service: args.demo_service.clone(), ..usual };
            interrupt.or(before::offered(&usual)).await?
        }
    };
    output.print(&terminal::strategies(&strategies));
    Ok(Exit::Passed.into())
}
