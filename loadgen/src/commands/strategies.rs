//! The `strategies` command: what a service can do.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use program::Interrupt;

use crate::config::service::ServiceArgs;
use crate::config::settings::ServiceSettings;
use crate::config::values::parse_url;
use crate::error::{Error, Exit};
use crate::lab::service::Service;
use crate::lab::stack::Stack;
use crate::output::Output;
use crate::report::terminal;

#[derive(Debug, Args)]
pub(crate) struct StrategiesArgs {
    /// Base URL of a running instance, instead of starting one
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) target: Option<String>,
    /// The program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub(crate) demo_service: Option<PathBuf>,
}

impl StrategiesArgs {
    /// The smallest service that can list its strategies.
    ///
    /// # Errors
    ///
    /// None, as every choice is made here.
    pub(crate) fn service(&self) -> Result<ServiceSettings, Error> {
        let smallest = ServiceArgs {
            instances: Some(1),
            zk_sessions: Some(1),
            hold: Some("0ms".to_owned()),
            demo_service: self.demo_service.clone(),
        };
        smallest.resolve(1, Duration::from_secs(5), None)
    }
}

/// Prints the strategies of a running service, or of one started for the question.
pub(super) async fn strategies(
    args: &StrategiesArgs,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let strategies = match &args.target {
        Some(url) => interrupt.or(Service::new(vec![url.clone()], String::new())?.strategies()).await?,
        None => {
            let stack = interrupt.or(Stack::start(&args.service()?)).await?;
            let strategies = interrupt.or(stack.service.strategies()).await;
            stack.stop().await?;
            strategies?
        }
    };
    output.print(&terminal::strategies(&strategies));
    Ok(Exit::Held.into())
}
