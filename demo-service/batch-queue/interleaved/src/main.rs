//! Runs the batch queue under a scheduler that chooses who goes on. Each seed is one schedule.

use std::process::ExitCode;

use clap::Parser;
use interleaved::scene::Scene;
use program::{Epilogue, run_program};

/// Runs the batch queue of the service under a scheduler that chooses who goes on.
///
/// Each run draws buyers, deadlines and faults by its seed. At each lock and each await the scheduler chooses, by the same seed, who goes
/// on. All rules are checked meanwhile, and everybody has to be served.
#[derive(Debug, Parser)]
#[command(name = "interleaved", max_term_width = 80, after_help = epilogue().to_string())]
struct Args {
    #[command(flatten)]
    campaign: campaign::CampaignArgs<Scene>,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("runs a million schedules of each scene", "interleaved --runs 1000000 --all-sights"),
            ("prints one schedule", "interleaved several --seed 7 --trace"),
        ])
        .exit_status(campaign::EXIT_STATUS)
}

fn main() -> ExitCode {
    run_program(|args: Args| campaign::command(&args.campaign, "schedules"))
}
