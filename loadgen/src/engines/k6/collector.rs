//! Makes requests of the points of k6.

use std::time::{Duration, SystemTime};

use super::point::{MetricPoint, PURCHASE, REQUESTS};
use crate::engines::logged::{EngineLog, LogFormat, LoggedOutcome, LoggedRequest, NO_PURCHASE};
use crate::engines::reading::Log;
use crate::engines::times::{milliseconds, since_1970};
use crate::error::Error;

/// The code of k6 for a request that got no answer in time.
const TIMEOUT: &str = "1050";

/// The requests of a log so far.
pub(super) struct Collector<'a> {
    pub(super) log: Log<'a>,
    requests: Vec<LoggedRequest>,
    /// Whether the log is one of an exported script.
    answers_seen: bool,
    /// The request whose metrics are being read. Its parts are added to the value.
    pending: Option<MetricPoint>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(log: Log<'a>) -> Collector<'a> {
        Collector { log, requests: Vec::new(), answers_seen: false, pending: None }
    }

    pub(super) fn add(&mut self, point: MetricPoint) -> Result<(), Error> {
        if point.metric == PURCHASE {
            if !self.answers_seen {
                // What was read so far are sign-ups, and single requests of purchases.
                self.answers_seen = true;
                self.requests.clear();
                self.pending = None;
            }
            let request = self.purchase(&point)?;
            self.requests.push(request);
        } else if !self.answers_seen {
            if point.metric == REQUESTS {
                self.end_pending()?;
                self.pending = Some(MetricPoint { value: 0.0, ..point });
            } else if let Some(pending) = &mut self.pending {
                pending.value += point.value;
            }
        }
        Ok(())
    }

    pub(super) fn done(mut self, format: LogFormat, resolution: Duration) -> Result<EngineLog, Error> {
        self.end_pending()?;
        Ok(self.log.done(format, resolution, self.answers_seen, self.requests))
    }

    fn end_pending(&mut self) -> Result<(), Error> {
        let Some(point) = self.pending.take() else { return Ok(()) };
        let label = point.get("name").or(point.get("url")).unwrap_or("request").to_owned();
        if label.ends_with(NO_PURCHASE) {
            return Ok(());
        }
        let status = status(&point);
        let outcome = match status {
            Some(status) => self.log.statuses.outcome(status),
            None if point.get("error_code") == Some(TIMEOUT) => Some(LoggedOutcome::Timeout),
            None => Some(LoggedOutcome::Error),
        };
        let trial = self.log.trial(point.line, point.get("trial"))?;
        let request = self.request(&point, label, status)?;
        self.requests.push(LoggedRequest { outcome, trial, ..request });
        Ok(())
    }

    /// Reads a point of an exported script.
    fn purchase(&mut self, point: &MetricPoint) -> Result<LoggedRequest, Error> {
        let intended = match point.get("intended") {
            Some(text) => Some(
                milliseconds(text)
                    .and_then(since_1970)
                    .ok_or_else(|| self.log.refuse_value(point.line, "intended", text, "milliseconds since 1970"))?,
            ),
            None => None,
        };
        let outcome = Some(self.log.outcome(point.line, point.get("outcome").unwrap_or_default())?);
        let trial = self.log.trial(point.line, point.get("trial"))?;
        let label = point.decoded("shop").unwrap_or_else(|| PURCHASE.to_owned());
        let request = self.request(point, label, status(point))?;
        let [buyer, order] = ["buyer", "order"].map(|name| point.decoded(name));
        Ok(LoggedRequest { intended, outcome, trial, buyer, order, ..request })
    }

    /// Makes a request of its end and its time in milliseconds.
    fn request(&mut self, point: &MetricPoint, label: String, status: Option<u16>) -> Result<LoggedRequest, Error> {
        let wrong = || self.log.refuse_value(point.line, "value", &point.value.to_string(), "milliseconds");
        let duration = Duration::try_from_secs_f64(point.value / 1000.0).map_err(|_| wrong())?;
        let started: SystemTime = point.time.checked_sub(duration).ok_or_else(wrong)?;
        Ok(LoggedRequest {
            label: self.log.label(&label),
            trial: None,
            intended: None,
            started,
            duration,
            outcome: None,
            status,
            buyer: None,
            order: None,
        })
    }
}

fn status(point: &MetricPoint) -> Option<u16> {
    point.get("status").and_then(|status| status.parse().ok()).filter(|status| *status > 0)
}
