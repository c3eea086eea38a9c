//! Logs of engines, of any version and cut off anywhere.

use std::fmt::Write as _;
use std::fs;
use std::time::UNIX_EPOCH;

use buyers::script::Pattern;

use super::format::LOCUST_COLUMNS;
use super::times::{milliseconds, rfc3339};
use super::*;

fn meanings() -> Meanings {
    let of = |status| vec![Pattern { statuses: vec![status], ..Pattern::default() }];
    Meanings { sold: of(200), sold_out: of(409), refused: of(503), ..Meanings::default() }
}

fn word(outcome: LoggedOutcome) -> &'static str {
    match outcome {
        LoggedOutcome::Sold => "sold",
        LoggedOutcome::SoldOut => "sold_out",
        LoggedOutcome::OverLimit => "over_limit",
        LoggedOutcome::Unpaid => "unpaid",
        LoggedOutcome::Refused => "refused",
        LoggedOutcome::Error => "error",
        LoggedOutcome::Timeout => "timeout",
    }
}

/// Writes a request as the exported file for Locust does. `None` if the request has not all of it.
fn row(request: &LoggedRequest) -> Option<Vec<String>> {
    let LoggedRequest { label, trial, intended, started, duration, outcome, status, buyer, order } = request;
    let nanos = |at: &SystemTime| Some(at.duration_since(UNIX_EPOCH).ok()?.as_nanos().to_string());
    Some(vec![
        trial.map_or_else(String::new, |trial| trial.to_string()),
        label.to_string(),
        nanos(&(*intended)?)?,
        nanos(started)?,
        duration.as_nanos().to_string(),
        word((*outcome)?).to_owned(),
        status.unwrap_or(0).to_string(),
        buyer.clone().unwrap_or_default(),
        order.clone().unwrap_or_default(),
    ])
}

// C57
#[test]
fn a_log_of_any_engine_is_read_whole_or_refused_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let statuses = StatusMeanings::of(&meanings());
    let read = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        read_file(&file, &statuses)
    };
    fuzz::any_bytes("engine-logs", |bytes| {
        let log = match read(bytes) {
            Ok(log) => log,
            Err(Error::Usage(told)) => return assert!(told.starts_with(file.to_str().unwrap()), "{told}"),
            Err(other) => panic!("{other}"),
        };
        assert!(!log.requests.is_empty() && log.requests.iter().all(|request| request.duration <= DAY));
        if log.format != LogFormat::K6Json {
            assert!(read(&bytes[..bytes.len() - 1]).is_err(), "the end of the last line may be missing");
        }
        let Some(rows) = log.requests.iter().map(row).collect::<Option<Vec<_>>>() else { return };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(LOCUST_COLUMNS).unwrap();
        rows.iter().for_each(|row| writer.write_record(row).unwrap());
        let again = read(&writer.into_inner().unwrap()).unwrap_or_else(|error| panic!("{rows:?}: {error}"));
        // JMeter writes null for a variable that it does not know.
        let known = |request: &LoggedRequest| LoggedRequest {
            buyer: request.buyer.clone().filter(|buyer| buyer != "null"),
            ..request.clone()
        };
        assert_eq!(again.requests, log.requests.iter().map(known).collect::<Vec<_>>(), "{rows:?}");
    });
}

// C57
#[test]
fn an_instant_of_a_log_is_exact_to_the_nanosecond() {
    fuzz::any_text("engine-times", |text| {
        if let Some(time) = milliseconds(text) {
            let written = format!("{}.{:06}", time.as_millis(), time.as_nanos() % 1_000_000);
            assert_eq!(milliseconds(&written), Some(time), "{text:?}");
            assert!(!text.starts_with(['+', '-']), "{text:?}");
        }
        if let Some(at) = rfc3339(text) {
            let mut shown = String::new();
            // The formatter refuses years from 10000 on, into which an offset may lead.
            if write!(shown, "{}", humantime::format_rfc3339_nanos(at)).is_ok() {
                assert_eq!(rfc3339(&shown), Some(at), "{text:?} is {shown}");
            }
            let hours = text.len().checked_sub(6).and_then(|from| text.get(from..)).filter(|_| !text.ends_with('Z'));
            assert!(hours.is_none_or(|offset| offset.starts_with(['+', '-'])), "{text:?}");
        }
    });
}
