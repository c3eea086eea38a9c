//! Runs the machines of the locks in simulated weather. Each seed is one walk.

use std::process::ExitCode;

use clap::Parser;
use lock_weather::machine::Machine;
use program::{Epilogue, run_program};

/// Runs the machines of the locks in simulated weather.
///
/// Each run draws users, sessions and faults by its seed. It lets them meet in a random order, and checks all rules after each step. Then
/// the faults stop, and everybody has to be served.
#[derive(Debug, Parser)]
#[command(name = "lock-weather", max_term_width = 80, after_help = epilogue().to_string())]
struct Args {
    #[command(flatten)]
    campaign: campaign::CampaignArgs<Machine>,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("runs each machine for ten minutes", "lock-weather --time 10m --all-sights"),
            ("prints one walk", "lock-weather queue --seed 7 --trace"),
        ])
        .exit_status(campaign::EXIT_STATUS)
}

fn main() -> ExitCode {
    run_program(|args: Args| campaign::command(&args.campaign, "weather"))
}
