//! The log of requests in the format of JMeter 5, for `jmeter -g` and other readers of its logs, and the lines of its
//! summariser.
//!
//! All times are those that JMeter would have taken: from the actual start of a request. A request counts as a success when
//! the buyer had a decision, sold or sold out. An unknown value is zero: `sentBytes`, `IdleTime`, `Connect`, and the
//! `Latency` of a request that had no answer. A row is always one line, even if the message of an instance has several,
//! because many readers split such logs at line ends.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use buyers::sample::{Confirmation, Outcome, Sample};
use buyers::sample::{ReservationTold, ToldEnd};
use buyers::tally::{ElapsedMs, Tally};
use csv::{Terminator, Writer, WriterBuilder};
use program::FromSystem as _;
use stats::{as_f64, as_ms};

use crate::engines::JTL_COLUMNS;
use crate::error::Error;
use crate::trial::run::FinishedTrial;

/// The columns that JMeter 5 writes by default, in its order.
const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,\
                      sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect";

/// A log of requests that is being written trial by trial, and its summary.
pub(crate) struct Jtl {
    /// Absent if only the summary is written.
    log: Option<(PathBuf, Writer<File>)>,
    /// Whether the log has the answers that buyers got. They have [`JTL_COLUMNS`], as JMeter writes its sample variables.
    has_answers: bool,
    /// The trials that it has.
    trials: u32,
    totals: Vec<Total>,
}

/// The summary of one strategy, or of one build of it.
struct Total {
    name: String,
    requests: u64,
    failures: u64,
    /// From the first start to the last end of each trial, added up.
    busy: Duration,
    elapsed: ElapsedMs,
}

impl Jtl {
    /// Begins a log, or only its summary. With `has_answers`, the log says what each buyer was told.
    pub(crate) fn create(path: Option<PathBuf>, has_answers: bool) -> Result<Jtl, Error> {
        let mut jtl = Jtl { log: None, has_answers, trials: 0, totals: Vec::new() };
        if let Some(path) = path {
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(Error::system(format!("write {}", path.display())))?;
            // The lock keeps another comparison from losing its log. Only a regular file has a lock and a length.
            if file.metadata().is_ok_and(|found| found.is_file()) {
                if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                    return Err(Error::FileInUse(path));
                }
                file.set_len(0).map_err(Error::system(format!("write {}", path.display())))?;
            }
            jtl.log = Some((path, WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(file)));
        }
        let answers = if has_answers { &JTL_COLUMNS[..] } else { &[] };
        jtl.write(|writer| writer.write_record(HEADER.split(',').chain(answers.iter().copied())))?;
        Ok(jtl)
    }

    /// Adds the requests of a trial, and flushes them to the disk, so that nothing is written during the next load.
    pub(crate) fn add(&mut self, finished: &FinishedTrial) -> Result<(), Error> {
        let FinishedTrial { trial, tally, released_at } = finished;
        let name = &trial.name();
        self.trials += 1;
        let Jtl { has_answers, trials: number, .. } = *self;
        self.write(|writer| {
            for sample in &tally.samples {
                let told = has_answers.then(|| answer(sample, number, *released_at));
                let row = row(sample, name, trial.users, trial.block, *released_at);
                writer.write_record(row.into_iter().chain(told.into_iter().flatten()))?;
            }
            writer.flush()?;
            // A pipe cannot be flushed to a disk.
            let _ = writer.get_ref().sync_data();
            Ok(())
        })?;
        self.count(name, tally);
        Ok(())
    }

    fn write(&mut self, what: impl FnOnce(&mut Writer<File>) -> csv::Result<()>) -> Result<(), Error> {
        let Some((path, writer)) = &mut self.log else { return Ok(()) };
        what(writer).map_err(|error| Error::system(format!("write {}", path.display()))(error.into()))
    }

    fn count(&mut self, name: &str, tally: &Tally) {
        if !self.totals.iter().any(|total| total.name == name) {
            self.totals.push(Total {
                name: name.to_owned(),
                requests: 0,
                failures: 0,
                busy: Duration::ZERO,
                elapsed: ElapsedMs::default(),
            });
        }
        let Some(total) = self.totals.iter_mut().find(|total| total.name == name) else { return };
        let answers = tally.answers();
        total.busy += tally.length.saturating_sub(tally.first_start.unwrap_or_default());
        total.requests += answers.total();
        total.failures += answers.undecided();
        total.elapsed.merge(&tally.elapsed);
    }

    /// Returns the last lines of JMeter's summariser, one per strategy, the warm-up included.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for total in self.totals.iter().filter(|total| total.requests > 0) {
            let busy_s = as_ms(total.busy) / 1e3;
            let rate =
                if busy_s > 0.0 { format!("{:>6.1}", as_f64(total.requests) / busy_s) } else { "******".to_owned() };
            let seconds = total.busy.as_secs();
            let hours = seconds / 3600;
            let minutes = seconds / 60 % 60;
            let seconds = seconds % 60;
            let share = 100.0 * as_f64(total.failures) / as_f64(total.requests);
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "{} = {:>6} in {hours:02}:{minutes:02}:{seconds:02} = {rate}/s Avg: {:>5} Min: {:>5} Max: {:>5} \
                 Err: {:>5} ({share:.2}%)",
                total.name,
                total.requests,
                total.elapsed.sum / u128::from(total.requests),
                total.elapsed.min.unwrap_or_default(),
                total.elapsed.max.unwrap_or_default(),
                total.failures,
            );
        }
        text
    }
}

fn is_success(sample: &Sample) -> bool {
    matches!(sample.outcome, Outcome::Sold | Outcome::SoldOut)
}

fn in_one_line(text: &str) -> String {
    text.split(['\r', '\n']).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn row(sample: &Sample, name: &str, users: u32, block: usize, released_at: SystemTime) -> [String; 17] {
    let since_epoch = (released_at + sample.started).duration_since(UNIX_EPOCH).unwrap_or_default();
    let latency = sample.first_byte.unwrap_or(sample.started).saturating_sub(sample.started);
    let status = sample.status.and_then(|status| reqwest::StatusCode::from_u16(status).ok());
    let code = match (status, sample.outcome) {
        (Some(status), _) => status.as_u16().to_string(),
        // A scenario tells the outcome alone.
        (None, _) if sample.is_answered() => String::new(),
        (None, Outcome::Timeout) => "Non HTTP response code: java.net.SocketTimeoutException".to_owned(),
        (None, _) => "Non HTTP response code: java.net.SocketException".to_owned(),
    };
    let problem = sample.problem.as_deref().map(in_one_line);
    let message = match status {
        Some(status) => status.canonical_reason().unwrap_or_default().to_owned(),
        None if sample.is_answered() => String::new(),
        None => format!("Non HTTP response message: {}", problem.as_deref().unwrap_or("no answer in time")),
    };
    let failure = problem.filter(|_| !is_success(sample)).unwrap_or_default();
    [
        since_epoch.as_millis().to_string(),
        sample.service().as_millis().to_string(),
        name.to_owned(),
        code,
        message,
        format!("{name} {block}-{}", sample.user + 1),
        if sample.is_answered() { "text" } else { "" }.to_owned(),
        is_success(sample).to_string(),
        failure,
        sample.received_bytes.to_string(),
        "0".to_owned(),
        users.to_string(),
        users.to_string(),
        String::new(),
        latency.as_millis().to_string(),
        "0".to_owned(),
        "0".to_owned(),
    ]
}

/// Returns what the buyer of a request in the trial with this number was told.
fn answer(sample: &Sample, number: u32, released_at: SystemTime) -> [String; 5] {
    let intended = (released_at + sample.intended).duration_since(UNIX_EPOCH).unwrap_or_default();
    let outcome = match sample.outcome {
        Outcome::Sold => "sold",
        Outcome::SoldOut => "sold_out",
        Outcome::OverLimit => "over_limit",
        Outcome::Unpaid => "unpaid",
        Outcome::Refused => "refused",
        Outcome::Error => "error",
        Outcome::Timeout => "timeout",
    };
    let order = match &sample.confirmation {
        Some(Confirmation::Shop(Some(order))) => in_one_line(order),
        Some(Confirmation::Lab(told)) => told.receipt.order_id.to_string(),
        Some(Confirmation::Reservation(ReservationTold { end: ToldEnd::Sold(receipt), .. })) => {
            receipt.order_id.to_string()
        }
        Some(Confirmation::Shop(None) | Confirmation::Reservation(_)) | None => String::new(),
    };
    let ms = format!("{:.3}", as_ms(intended));
    [number.to_string(), ms, outcome.to_owned(), sample.buyer.to_string(), order]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use regex::Regex;

    use super::*;
    use crate::report::fixture;
    use crate::report::fixture::sample;

    /// The wall clock at the beginning of every load here.
    const RELEASED_MS: u64 = 1_795_224_922_000;

    fn ran(strategy: &str, samples: Vec<Sample>) -> FinishedTrial {
        let released_at = UNIX_EPOCH + Duration::from_millis(RELEASED_MS);
        FinishedTrial { trial: fixture::trial(strategy, 2, 10, 10), tally: fixture::tally(&samples), released_at }
    }

    /// Returns the log of these trials, and the lines of the summariser.
    fn written(all: &[FinishedTrial]) -> (String, String) {
        written_with(all, false)
    }

    fn written_with(all: &[FinishedTrial], has_answers: bool) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jtl");
        let mut jtl = Jtl::create(Some(path.clone()), has_answers).unwrap();
        all.iter().for_each(|ran| jtl.add(ran).unwrap());
        let summary = jtl.summary();
        (fs::read_to_string(path).unwrap(), summary)
    }

    fn failed(outcome: Outcome, status: Option<u16>, problem: Option<&str>) -> Sample {
        let problem = problem.map(str::to_owned);
        let first_byte = status.map(|_| Duration::from_millis(20));
        Sample { user: 6, status, problem, first_byte, received_bytes: 0, ..sample(outcome, 5, 30) }
    }

    #[test]
    fn a_request_is_a_line_with_the_columns_of_jmeter_5() {
        let late = Sample { first_byte: Some(Duration::from_millis(140)), ..sample(Outcome::Sold, 100, 150) };
        let sold_out = Sample { user: 393, status: Some(409), received_bytes: 135, ..sample(Outcome::SoldOut, 1, 62) };
        let (log, _) = written(&[ran("zk-mutex", vec![late, sold_out])]);
        let expected = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,\
                        bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect\n\
                        1795224922100,50,zk-mutex,200,OK,zk-mutex 2-1,text,true,,100,0,300,300,,40,0,0\n\
                        1795224922001,61,zk-mutex,409,Conflict,zk-mutex 2-394,text,true,,135,0,300,300,,61,0,0\n";
        assert_eq!(log, expected);
    }

    #[test]
    fn the_log_of_a_shop_says_what_each_buyer_was_told() {
        let order = Confirmation::Shop(Some("o, 7".into()));
        let sold = Sample { buyer: 41, confirmation: Some(order), ..sample(Outcome::Sold, 100, 150) };
        let refused = Sample { intended: Duration::from_micros(1500), ..sample(Outcome::Refused, 2, 9) };
        let (log, _) = written_with(&[ran("a shop", vec![sold, refused])], true);
        let ends: Vec<&str> = log.lines().map(|line| line.split(",Connect").last().unwrap()).collect();
        assert_eq!(ends[0], ",trial,intended,outcome,buyer,order");
        assert!(ends[1].ends_with(",0,0,1,1795224922000.000,sold,41,\"o, 7\""), "{log}");
        assert!(ends[2].ends_with(",0,0,1,1795224922001.500,refused,0,"), "{log}");
    }

    #[test]
    fn an_outcome_without_a_status_is_no_broken_connection() {
        let (log, _) = written(&[ran("a", vec![failed(Outcome::SoldOut, None, None)])]);
        assert_eq!(log.lines().last(), Some("1795224922005,25,a,,,a 2-7,text,true,,0,0,300,300,,0,0,0"));
    }

    #[test]
    fn a_request_without_a_decision_failed_and_says_why() {
        let samples = vec![
            failed(Outcome::Refused, Some(503), Some("refused: lock-timeout")),
            failed(Outcome::Error, Some(500), Some("answered 500 Internal Server Error")),
            failed(Outcome::Error, None, Some("connection refused")),
            failed(Outcome::Timeout, None, None),
        ];
        let (log, _) = written(&[ran("a", samples)]);
        let lines: Vec<&str> = log.lines().skip(1).collect();
        let begin = "1795224922005,25,a";
        let java = "Non HTTP response code: java.net";
        let expected = [
            format!("{begin},503,Service Unavailable,a 2-7,text,false,refused: lock-timeout,0,0,300,300,,15,0,0"),
            format!(
                "{begin},500,Internal Server Error,a 2-7,text,false,answered 500 Internal Server Error,0,0,300,300,,15,0,0"
            ),
            format!(
                "{begin},{java}.SocketException,Non HTTP response message: connection refused,a 2-7,,false,\
                 connection refused,0,0,300,300,,0,0,0"
            ),
            format!(
                "{begin},{java}.SocketTimeoutException,Non HTTP response message: no answer in time,a 2-7,,false,,0,0,\
                 300,300,,0,0,0"
            ),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn words_of_an_instance_are_quoted_and_stay_in_their_line() {
        let problem = "it said \"no\", twice:\r\n\r\nno\n";
        let (log, _) = written(&[ran("a", vec![failed(Outcome::Error, Some(418), Some(problem))])]);
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.contains(",418,I'm a teapot,a 2-7,text,false,\"it said \"\"no\"\", twice: no\",0,"), "{log}");
        let mut reader = csv::Reader::from_reader(log.as_bytes());
        let row = reader.records().next().unwrap().unwrap();
        assert_eq!((row.len(), &row[8]), (17, "it said \"no\", twice: no"));
    }

    /// Returns the pattern that tools use to read the summariser of JMeter 2.13 and 5.
    fn summariser() -> Regex {
        let duration = r"(?:(\d\d:\d\d:\d\d)|([\d.]+)s)";
        let rest = r"=\s+([\d.]+|\*+)/s Avg:\s+(\d+) Min:\s+(\d+) Max:\s+(\d+) Err:\s+(\d+) \(([\d.]+)%\)";
        let active = r"(?: Active: (\d+) Started: (\d+) Finished: (\d+))?";
        Regex::new(&format!(r"^(\S+) ([+=])\s+(\d+) in\s+{duration} {rest}{active}$")).unwrap()
    }

    #[test]
    fn jmeter_sums_up_all_trials_alike() {
        let first = ran("zk-mutex", vec![sample(Outcome::Sold, 0, 100), sample(Outcome::SoldOut, 50, 2000)]);
        let second = ran("zk-mutex", vec![failed(Outcome::Timeout, None, None), sample(Outcome::Sold, 0, 1000)]);
        let (_, summary) = written(&[first, ran("pg-conditional", vec![sample(Outcome::Sold, 7, 7)]), second]);
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(
            lines,
            [
                "zk-mutex =      4 in 00:00:03 =    1.3/s Avg:   768 Min:    25 Max:  1950 Err:     1 (25.00%)",
                "pg-conditional =      1 in 00:00:00 = ******/s Avg:     0 Min:     0 Max:     0 Err:     0 (0.00%)",
            ]
        );
        let read: Vec<_> = lines.iter().map(|line| summariser().captures(line).unwrap()).collect();
        let fields = |number: usize| [1, 3, 4, 6, 7, 10].map(|group| read[number].get(group).unwrap().as_str());
        assert_eq!(fields(0), ["zk-mutex", "4", "00:00:03", "1.3", "768", "1"]);
        assert_eq!(fields(1), ["pg-conditional", "1", "00:00:00", "******", "0", "0"]);
    }

    #[test]
    fn the_summary_needs_no_log() {
        let mut jtl = Jtl::create(None, false).unwrap();
        jtl.add(&ran("a", vec![sample(Outcome::Sold, 0, 100)])).unwrap();
        assert!(jtl.summary().starts_with("a =      1 in "), "{}", jtl.summary());
    }

    #[test]
    fn hours_and_long_names_do_not_break_the_summary() {
        let long = ran("zk-cohort-fenced", vec![sample(Outcome::Sold, 0, 7_384_000)]);
        let (_, summary) = written(&[long]);
        assert!(summary.contains(" in 02:03:04 ="), "{summary}");
        assert!(summariser().is_match(summary.trim_end()), "{summary}");
    }

    #[test]
    fn a_strategy_without_a_single_request_has_no_line() {
        let (log, summary) = written(&[ran("zk-mutex", Vec::new())]);
        assert_eq!((log.lines().count(), summary.as_str()), (1, ""));
    }
}
