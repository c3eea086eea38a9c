//! Goose's own reports of the trials.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::lab::strategy::as_file_name;
use crate::trial::schedule::{ScheduledTrial, Subject};

/// A format that goose writes its report in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GooseFormat {
    /// A page, whose charts need the internet
    Html,
    /// Markdown
    Md,
    /// For programs
    Json,
}

impl GooseFormat {
    /// Returns the extension of its files. Goose chooses the format by it.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            GooseFormat::Html => "html",
            GooseFormat::Md => "md",
            GooseFormat::Json => "json",
        }
    }
}

/// The files for goose's reports, one per trial.
#[derive(Debug, Clone)]
pub(crate) struct GooseReports {
    pub(crate) folder: PathBuf,
    pub(crate) format: GooseFormat,
}

impl GooseReports {
    /// Returns the file of a trial, named by the strategy, the number of users and the number of the block.
    pub(crate) fn file(&self, scheduled: ScheduledTrial<'_>) -> PathBuf {
        let Subject { strategy, users, build, hazard } = scheduled.subject;
        let strategy = as_file_name(strategy, build.as_deref(), *hazard);
        self.folder.join(format!("{strategy}-{users}-{}.{}", scheduled.block, self.format.extension()))
    }
}
