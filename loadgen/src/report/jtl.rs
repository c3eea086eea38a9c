//! Every single request as JMeter 5 writes it, for `jmeter -g` and whatever else reads its logs, and the lines of its
//! summariser.
//!
//! All times are those that JMeter would have taken: from the actual start of a request. A request counts as a success
//! when the buyer had a decision, sold or sold out. What is not known is zero: `sentBytes`, `IdleTime`, `Connect`.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use csv::{Terminator, Writer, WriterBuilder};
use loadgen::stats::{as_f64, as_ms};

use crate::error::Error;
use crate::run::Ran;
use crate::trial::{Outcome, Sample};

/// The columns that JMeter 5 writes by default, in its order.
const COLUMNS: [&str; 17] = [
    "timeStamp",
    "elapsed",
    "label",
    "responseCode",
    "responseMessage",
    "threadName",
    "dataType",
    "success",
    "failureMessage",
    "bytes",
    "sentBytes",
    "grpThreads",
    "allThreads",
    "URL",
    "Latency",
    "IdleTime",
    "Connect",
];

/// A log of requests that is being written, trial by trial.
pub(crate) struct Jtl {
    path: PathBuf,
    writer: Writer<File>,
    totals: Vec<Total>,
}

/// What the summariser says of one strategy.
struct Total {
    name: String,
    requests: u64,
    failures: u64,
    /// From the first start to the last end of each trial, added up.
    busy: Duration,
    elapsed_ms: u128,
    elapsed_min_ms: u128,
    elapsed_max_ms: u128,
}

impl Jtl {
    /// Begins a log.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the file cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Jtl, Error> {
        let file = File::create(path).map_err(Error::system(format!("write {}", path.display())))?;
        let writer = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(file);
        let mut jtl = Jtl { path: path.to_owned(), writer, totals: Vec::new() };
        let written = jtl.writer.write_record(COLUMNS);
        jtl.done(written)?;
        Ok(jtl)
    }

    /// Adds the requests of a trial, and sees to it that they are in the file.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when they cannot be written.
    pub(crate) fn add(&mut self, ran: &Ran) -> Result<(), Error> {
        let trial = &ran.trial;
        let strategy = &trial.strategy;
        for sample in &ran.samples {
            let written = self.writer.write_record(row(sample, strategy, trial.users, trial.block, ran.released_at));
            self.done(written)?;
        }
        let flushed = self.writer.flush().map_err(csv::Error::from);
        self.done(flushed)?;
        self.count(strategy, &ran.samples);
        Ok(())
    }

    /// Ends the log.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when what is left cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let flushed = self.writer.flush().map_err(csv::Error::from);
        self.done(flushed)
    }

    fn done(&self, result: csv::Result<()>) -> Result<(), Error> {
        result.map_err(|error| Error::system(format!("write {}", self.path.display()))(error.into()))
    }

    fn count(&mut self, strategy: &str, samples: &[Sample]) {
        if !self.totals.iter().any(|total| total.name == strategy) {
            self.totals.push(Total {
                name: strategy.to_owned(),
                requests: 0,
                failures: 0,
                busy: Duration::ZERO,
                elapsed_ms: 0,
                elapsed_min_ms: u128::MAX,
                elapsed_max_ms: 0,
            });
        }
        let Some(total) = self.totals.iter_mut().find(|total| total.name == strategy) else { return };
        let start = samples.iter().map(|sample| sample.started).min().unwrap_or_default();
        let end = samples.iter().map(|sample| sample.ended).max().unwrap_or_default();
        total.busy += end.saturating_sub(start);
        for sample in samples {
            let elapsed_ms = sample.service().as_millis();
            total.requests += 1;
            total.failures += u64::from(!is_success(sample));
            total.elapsed_ms += elapsed_ms;
            total.elapsed_min_ms = total.elapsed_min_ms.min(elapsed_ms);
            total.elapsed_max_ms = total.elapsed_max_ms.max(elapsed_ms);
        }
    }

    /// What JMeter's summariser would have printed at the end, a line a strategy, the warm-up included.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for total in self.totals.iter().filter(|total| total.requests > 0) {
            let busy_s = as_ms(total.busy) / 1e3;
            let rate =
                if busy_s > 0.0 { format!("{:>6.1}", as_f64(total.requests) / busy_s) } else { "******".to_owned() };
            let seconds = total.busy.as_secs();
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let share = 100.0 * as_f64(total.failures) / as_f64(total.requests);
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "{} = {:>6} in {hours:02}:{minutes:02}:{seconds:02} = {rate}/s Avg: {:>5} Min: {:>5} Max: {:>5} \
                 Err: {:>5} ({share:.2}%)",
                total.name,
                total.requests,
                total.elapsed_ms / u128::from(total.requests),
                total.elapsed_min_ms,
                total.elapsed_max_ms,
                total.failures,
            );
        }
        text
    }
}

fn is_success(sample: &Sample) -> bool {
    matches!(sample.outcome, Outcome::Sold { .. } | Outcome::SoldOut)
}

fn row(sample: &Sample, strategy: &str, users: u32, block: usize, released_at: SystemTime) -> [String; 17] {
    let since_epoch = (released_at + sample.started).duration_since(UNIX_EPOCH).unwrap_or_default();
    let first_byte = sample.first_byte.unwrap_or(sample.ended).saturating_sub(sample.started);
    let status = sample.status.and_then(|status| reqwest::StatusCode::from_u16(status).ok());
    let code = match (status, sample.outcome) {
        (Some(status), _) => status.as_u16().to_string(),
        (None, Outcome::Timeout) => "Non HTTP response code: java.net.SocketTimeoutException".to_owned(),
        (None, _) => "Non HTTP response code: java.net.SocketException".to_owned(),
    };
    let message = match status {
        Some(status) => status.canonical_reason().unwrap_or_default().to_owned(),
        None => format!("Non HTTP response message: {}", sample.problem.as_deref().unwrap_or("no answer in time")),
    };
    let failure = if is_success(sample) { String::new() } else { sample.problem.clone().unwrap_or_default() };
    [
        since_epoch.as_millis().to_string(),
        sample.service().as_millis().to_string(),
        strategy.to_owned(),
        code,
        message,
        format!("{strategy} {block}-{}", sample.user + 1),
        if sample.status.is_some() { "text" } else { "" }.to_owned(),
        is_success(sample).to_string(),
        failure,
        sample.received_bytes.to_string(),
        "0".to_owned(),
        users.to_string(),
        users.to_string(),
        String::new(),
        first_byte.as_millis().to_string(),
        "0".to_owned(),
        "0".to_owned(),
    ]
}
