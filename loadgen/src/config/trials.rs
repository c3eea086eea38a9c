//! The flags of the trials and of the report, which every command that runs trials takes.

use std::path::PathBuf;

use buyers::model::LoadModel;
use clap::Args;

use super::plan::PlanLayer;
use super::settings::{ReportSettings, RequestLog};
use super::values::{Trials, parse_share};
use crate::error::Error;
use crate::judge::metrics::TableWidth;
use crate::trial::goose::GooseFormat;

/// The number of the trials, their order, and the limits.
#[derive(Debug, Args)]
pub(crate) struct TrialArgs {
    /// Trials of each strategy or shop, after one warm-up: 6 give an interval, 10 a ranking. A p99 needs 1000 sold units in all
    /// trials together [default: 10]
    #[arg(long, value_name = "N")]
    trials: Option<Trials>,
    /// Leaves out the warm-up
    #[arg(long)]
    no_warm_up: bool,
    /// Seed of the order of the trials and of the arrivals [default: random; the report names it]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Largest share of dropped arrivals. With more of them, a trial of --rate is undecided [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    dropped_max: Option<f64>,
    /// Largest share of requests that end in an error or a timeout. With more of them, a trial is undecided [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    errors_max: Option<f64>,
}

/// What is reported.
#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    /// Folder to write the report into; an earlier report in it is removed before the first trial
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// File for a log of every request, which JMeter reads. It may be on another disk than Postgres [default: results.jtl in
    /// the folder of the report, without trials of more than 1000000 requests]
    #[arg(long, value_name = "FILE")]
    request_log: Option<PathBuf>,
    /// Writes no log of requests
    #[arg(long, conflicts_with = "request_log")]
    no_request_log: bool,
    /// Prints every column of the table, not only those that fit 100 characters
    #[arg(long)]
    wide: bool,
    /// Prints a line per strategy or shop as JMeter's summariser does, for tools that read it
    #[arg(long)]
    jmeter_summary: bool,
    /// Writes the report that goose itself makes of each trial into the folder goose of --out. It costs time: requests are
    /// counted twice
    #[arg(long, value_name = "FORMAT", value_enum)]
    goose_report: Option<GooseFormat>,
    /// Shows no progress on standard error
    #[arg(long)]
    quiet: bool,
}

impl TrialArgs {
    /// Puts the flags over the settings of a plan.
    pub(super) fn put_into(self, layer: &mut PlanLayer) {
        layer.trials = self.trials;
        layer.warm_up = self.no_warm_up.then_some(false);
        layer.seed = self.seed;
        layer.dropped_max = self.dropped_max;
        layer.errors_max = self.errors_max;
    }
}

impl ReportFlags {
    /// Decides what is written about a load.
    pub(super) fn resolve(self, model: &LoadModel) -> Result<ReportSettings, Error> {
        let ReportFlags { out, request_log, no_request_log, wide, jmeter_summary, goose_report, quiet } = self;
        if goose_report.is_some() && matches!(model, LoadModel::Open { .. }) {
            let text =
                "goose cannot report a load with a rate, as it has no open model; remove --goose-report, or the rate";
            return Err(Error::Usage(text.to_owned()));
        }
        let request_log = match request_log {
            Some(path) => RequestLog::At(path),
            None if no_request_log => RequestLog::Off,
            None => RequestLog::InReport,
        };
        let column = if wide { TableWidth::Wide } else { TableWidth::Narrow };
        Ok(ReportSettings { folder: out, request_log, column, jmeter_summary, goose_report, quiet, reproduction: true })
    }
}
