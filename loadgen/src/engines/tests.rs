use std::fs;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use buyers::script::{JsonPath, Pattern};
use program::ProgramError as _;
use serde_json::json;

use super::*;

fn pattern(status: u16) -> Pattern {
    Pattern { statuses: vec![status], ..Pattern::default() }
}

fn meanings() -> Meanings {
    Meanings {
        sold: vec![pattern(201)],
        sold_out: vec![pattern(409)],
        refused: vec![pattern(503)],
        queued: vec![pattern(202)],
        ..Meanings::default()
    }
}

fn read_bytes(bytes: &[u8], meanings: &Meanings) -> Result<EngineLog, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, bytes).unwrap();
    read(&[path], meanings).map(|mut logs| logs.remove(0))
}

fn read_text(text: &str) -> EngineLog {
    read_bytes(text.as_bytes(), &meanings()).unwrap()
}

/// Returns the error without the folder of the file.
fn refusal(text: &str) -> String {
    let error = read_bytes(text.as_bytes(), &meanings()).unwrap_err();
    assert_eq!(error.exit().code(), 64);
    let error = error.to_string();
    error[error.find("/log").unwrap() + 1..].to_owned()
}

fn outcomes(log: &EngineLog) -> Vec<Option<LoggedOutcome>> {
    log.requests.iter().map(|request| request.outcome).collect()
}

const JTL: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,bytes,grpThreads,allThreads,\
                   Latency,\"trial\",\"intended\",\"outcome\",\"buyer\",\"order\"\n";
const PLAIN_JTL: &str = "timeStamp,elapsed,label,responseCode,success\n";
const LOCUST: &str = "trial,shop,intended_ns,started_ns,duration_ns,outcome,status,buyer,order\n";

#[test]
fn a_log_of_jmeter_has_what_its_buyers_were_told() {
    let log = read_text(&format!(
        "{JTL}1795780438728,90,sign-up 1: no purchase,200,OK,buyers 1-4,text,true,201,17,17,90,,,,3,\n\
         1795780447054,75,\"my, shop\",201,OK,buyers 1-28,text,true,182,40,40,75,2,1795780447000.250,sold,27,a-17\n\
         1795780447060,9,\"my, shop\",Non HTTP response code: java.net.SocketTimeoutException,,b,text,false,0,1,1,0,null,null,\
         timeout,null,null\n"
    ));
    assert_eq!((log.format, log.resolution, log.answers_seen), (LogFormat::Jtl, Duration::from_millis(1), true));
    let expected = LoggedRequest {
        label: "my, shop".into(),
        trial: Some(2),
        intended: Some(UNIX_EPOCH + Duration::new(1_795_780_447, 250_000)),
        started: UNIX_EPOCH + Duration::from_millis(1_795_780_447_054),
        duration: Duration::from_millis(75),
        outcome: Some(LoggedOutcome::Sold),
        status: Some(201),
        buyer: Some("27".to_owned()),
        order: Some("a-17".to_owned()),
    };
    assert_eq!(log.requests[0], expected);
    let [_, late] = &log.requests[..] else { panic!("{log:?}") };
    assert_eq!((late.outcome, late.status, late.trial), (Some(LoggedOutcome::Timeout), None, None));
    assert_eq!((&late.buyer, &late.order, late.intended), (&None, &None, None));
    assert!(Arc::ptr_eq(&log.requests[0].label, &late.label), "labels are kept once");
}

#[test]
fn a_log_without_answers_is_read_by_status() {
    let rows = "1,2,a,201,true\n1,2,a,409,false\n1,2,a,503,false\n1,2,a,202,true\n1,2,a,500,false\n\
                1,2,a,Non HTTP response code: java.net.SocketTimeoutException,false\n1,2,a,Non HTTP response code: x,false\n";
    let log = read_text(&format!("{PLAIN_JTL}{rows}"));
    assert!(!log.answers_seen);
    let [sold, sold_out, refused, error, timeout] = [
        LoggedOutcome::Sold,
        LoggedOutcome::SoldOut,
        LoggedOutcome::Refused,
        LoggedOutcome::Error,
        LoggedOutcome::Timeout,
    ]
    .map(Some);
    assert_eq!(outcomes(&log), [sold, sold_out, refused, None, error, timeout, error]);
    let tabs = format!("{PLAIN_JTL}{rows}").replace(',', "\t");
    assert_eq!(outcomes(&read_text(&tabs)), outcomes(&log), "JMeter may have another delimiter");
}

/// The meanings of a shop that answers 200 to everybody.
fn meanings_of_200() -> Meanings {
    let values = |value| vec![(JsonPath::parse("$.ok").unwrap(), value)];
    let json = |value| Pattern { statuses: vec![200], values: values(value), ..Pattern::default() };
    Meanings { sold: vec![json(json!(true))], sold_out: vec![json(json!(false))], ..Meanings::default() }
}

#[test]
fn a_status_with_several_meanings_tells_nothing() {
    let always_200 = meanings_of_200();
    let text = format!("{PLAIN_JTL}1,2,a,200,true\n1,2,a,500,false\n");
    let log = read_bytes(text.as_bytes(), &always_200).unwrap();
    assert_eq!(outcomes(&log), [None, Some(LoggedOutcome::Error)]);
    let any = Pattern { values: vec![(JsonPath::parse("$.no").unwrap(), json!(1))], ..Pattern::default() };
    let log = read_bytes(text.as_bytes(), &Meanings { refused: vec![any], ..always_200 }).unwrap();
    assert_eq!(outcomes(&log), [None, None]);
    let sold_by_json = Meanings { sold_out: vec![], ..meanings_of_200() };
    let log = read_bytes(text.as_bytes(), &sold_by_json).unwrap();
    assert_eq!(
        outcomes(&log),
        [None, Some(LoggedOutcome::Error)],
        "an answer of 200 without the value may be an error"
    );
}

#[test]
fn a_status_that_needs_a_header_or_a_text_tells_nothing() {
    let text = format!("{PLAIN_JTL}1,2,a,302,true\n1,2,a,200,true\n1,2,a,500,false\n");
    let headers = vec![(reqwest::header::LOCATION, "/thanks".to_owned())];
    let by_header = Pattern { headers, ..pattern(302) };
    let by_text = Pattern { text: Some("Thank you".to_owned()), ..pattern(200) };
    let meanings = Meanings { sold: vec![by_header, by_text], ..Meanings::default() };
    let log = read_bytes(text.as_bytes(), &meanings).unwrap();
    assert_eq!(outcomes(&log), [None, None, Some(LoggedOutcome::Error)]);
}

/// Lines as k6 1.1 writes them.
const K6: &str = r#"{"type":"Metric","data":{"name":"http_reqs","type":"counter","contains":"default","thresholds":[],"submetrics":null},"metric":"http_reqs"}
{"metric":"http_reqs","type":"Point","data":{"time":"2026-11-27T12:00:00.5Z","value":1,"tags":{"name":"buy","status":"201"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2026-11-27T12:00:00.5Z","value":22,"tags":{"name":"buy","status":"201"}}}
{"metric":"http_req_blocked","type":"Point","data":{"time":"2026-11-27T12:00:00.5Z","value":3,"tags":{"name":"buy","status":"201"}}}
{"metric":"http_req_connecting","type":"Point","data":{"time":"2026-11-27T12:00:00.5Z","value":1.5,"tags":{"name":"buy","status":"201"}}}
{"metric":"http_req_waiting","type":"Point","data":{"time":"2026-11-27T12:00:00.5Z","value":19,"tags":{"name":"buy","status":"201"}}}
{"metric":"http_reqs","type":"Point","data":{"time":"2026-11-27T14:00:01+02:00","value":1,"tags":{"status":"0","url":"http://a/","error_code":"1050"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2026-11-27T14:00:01+02:00","value":0,"tags":{"status":"0","url":"http://a/","error_code":"1050"}}}
"#;

#[test]
fn a_request_of_k6_ends_at_its_time_and_counts_its_connection() {
    let log = read_text(K6);
    assert_eq!((log.format, log.answers_seen), (LogFormat::K6Json, false));
    let [bought, late] = &log.requests[..] else { panic!("{log:?}") };
    assert_eq!((&*bought.label, bought.status, bought.outcome), ("buy", Some(201), Some(LoggedOutcome::Sold)));
    assert_eq!(bought.duration, Duration::from_millis(25), "the wait for a connection contains the time to open it");
    assert_eq!(bought.started, UNIX_EPOCH + Duration::from_millis(1_795_780_800_475));
    assert_eq!((&*late.label, late.status, late.outcome), ("http://a/", None, Some(LoggedOutcome::Timeout)));
    assert_eq!(late.started, UNIX_EPOCH + Duration::from_secs(1_795_780_801));
}

const K6_PURCHASE: &str = r#"{"metric":"purchase","type":"Point","data":{"time":"2026-11-27T12:00:00.250000001Z","value":250,"tags":{"outcome":"sold","shop":"a%26b","status":"200","trial":"3"},"metadata":{"intended":"1795780800000.5","order":"x%3D1","buyer":"9"}}}
"#;

#[test]
fn a_log_of_an_exported_script_has_its_purchases_alone() {
    let log = read_text(&format!("{K6}{K6_PURCHASE}{K6}"));
    assert!(log.answers_seen);
    let expected = LoggedRequest {
        label: "a&b".into(),
        trial: Some(3),
        intended: Some(UNIX_EPOCH + Duration::new(1_795_780_800, 500_000)),
        started: UNIX_EPOCH + Duration::new(1_795_780_800, 1),
        duration: Duration::from_millis(250),
        outcome: Some(LoggedOutcome::Sold),
        status: Some(200),
        buyer: Some("9".to_owned()),
        order: Some("x=1".to_owned()),
    };
    assert_eq!(log.requests, [expected]);
}

/// Returns a purchase in CSV at this time, as k6 1.1 writes it.
fn k6_csv(time: &str) -> String {
    format!(
        "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,\
         subproto,tls_version,url,extra_tags,metadata\n\
         data_sent,1795780141,0.000000,,,,,::setup,,,,,,,,,,,\n\
         purchase,{time},250.000000,,,,,,,,,sale,,200,,,,shop=a%26b&outcome=sold&trial=3,intended=1795780800000.5&order=x%3D1&buyer=9\n"
    )
}

#[test]
fn csv_of_k6_is_the_same_in_each_unit_but_seconds() {
    let json = read_text(K6_PURCHASE);
    for (time, nanos) in [
        ("1795780800250000001", 1),
        ("2026-11-27T12:00:00.250000001Z", 1),
        ("1795780800250000", 1000),
        ("1795780800250", 1_000_000),
    ] {
        let log = read_text(&k6_csv(time));
        assert_eq!(
            (log.format, log.resolution, log.answers_seen),
            (LogFormat::K6Csv, Duration::from_nanos(nanos), true)
        );
        if nanos == 1 {
            assert_eq!(log.requests, json.requests);
        }
    }
    for coarse in ["1795780800", "2026-11-27T12:00:00Z"] {
        let refused = refusal(&k6_csv(coarse));
        assert!(refused.contains("whole seconds") && refused.contains("K6_CSV_TIME_FORMAT=unix_nano"), "{refused}");
    }
}

#[test]
fn a_file_of_locust_has_nanoseconds() {
    let log = read_text(&format!(
        "{LOCUST},shop,1795780153000000000,1795780153004389642,246072309,sold,200,31,af22\n\
         4,shop,1795780153000000000,1795780153004389642,5,error,0,30,\n"
    ));
    assert_eq!((log.format, log.resolution, log.answers_seen), (LogFormat::Locust, Duration::from_nanos(1), true));
    let [sold, failed] = &log.requests[..] else { panic!("{log:?}") };
    assert_eq!(sold.started, UNIX_EPOCH + Duration::from_nanos(1_795_780_153_004_389_642));
    assert_eq!((sold.duration, sold.order.as_deref()), (Duration::from_nanos(246_072_309), Some("af22")));
    assert_eq!((failed.trial, failed.status, failed.outcome), (Some(4), None, Some(LoggedOutcome::Error)));
    assert_eq!((failed.buyer.as_deref(), &failed.order), (Some("30"), &None));
}

// C41
#[test]
fn a_file_that_is_no_log_is_refused_with_the_remedy() {
    for (text, expected) in [
        ("", "log:1: the file is empty"),
        (
            "<?xml version=\"1.0\"?>\n<testResults>",
            "log:1: the file is a log of JMeter in XML; write CSV by -Jjmeter.save.",
        ),
        (
            "1795224922478,140,GET /,200,OK,buyers 1-394,,true\n",
            "log:1: the file is a log of JMeter without the names of its",
        ),
        ("Type,Name,Request Count\n", "log:1: the file has statistics of Locust, which cannot be merged"),
        ("{\"a\":1}\n", "log:1: \"{\\\"a\\\":1}\" begins no log that can be read"),
        ("\u{1f}\u{8b}", "log:1: the file is compressed"),
    ] {
        let refused = refusal(text);
        assert!(refused.starts_with(expected), "{refused}");
    }
    let missing = read(&[PathBuf::from("no/such/log")], &meanings()).unwrap_err();
    assert!(program::chain(&missing).starts_with("could not read no/such/log: "), "{missing}");
}

// C41
#[test]
fn a_wrong_line_is_refused_with_its_number() {
    let columns = ",,sold,1,\n";
    let row = |time: &str, rest: &str| format!("{JTL}{time},5,a,200,OK,t,text,true,1,1,1,1{rest}");
    for (text, expected) in [
        (
            row("now", ",,,sold,1,\n"),
            "log:2: timeStamp is \"now\", and should be whole milliseconds, as by jmeter.save.",
        ),
        (row("1", ",x,,sold,1,\n"), "log:2: trial is \"x\", and should be a whole number"),
        (row("1", ",1,soon,sold,1,\n"), "log:2: intended is \"soon\", and should be milliseconds since 1970"),
        (
            row("1", ",1,,won,1,\n"),
            "log:2: outcome is \"won\", and should be sold, sold_out, over_limit, unpaid, refused, error or timeout",
        ),
        (row("1", ",1,,,1,\n"), "log:2: outcome is \"\", and should be"),
        (row("1", columns), "log:2: the line has 16 fields, and the first line names 17; delete the line"),
        (
            JTL.replace(",\"order\"", ""),
            "log:1: the column order is missing; log all by -Jsample_variables=trial,intended,",
        ),
        ("timeStamp,elapsed,label\n".to_owned(), "log:1: the column responseCode is missing"),
        (format!("{K6}{{\"metric\":\"pur\n"), "log:9: the line is no JSON of k6"),
        (K6_PURCHASE.replace("250,", "-1,"), "log:1: value is \"-1\", and should be milliseconds"),
        (
            K6_PURCHASE.replace("12:00", "noon"),
            "log:1: time is \"2026-11-27Tnoon:00.250000001Z\", and should be an instant",
        ),
        (K6_PURCHASE.replace("sold", "won"), "log:1: outcome is \"won\""),
        (format!("{LOCUST},shop,1,2,x,sold,200,1,\n"), "log:2: duration_ns is \"x\", and should be nanoseconds"),
        (format!("{LOCUST},shop,1,2,3,sold,two,1,\n"), "log:2: status is \"two\""),
        (format!("{JTL}1,5,a: no purchase,200,OK,t,text,true,1,1,1,1,,,,,\n"), "log has no request to buy"),
    ] {
        let refused = refusal(&text);
        assert!(refused.starts_with(expected), "{refused}");
    }
    let refused = read_bytes(&[JTL.as_bytes(), b"\xff,5"].concat(), &meanings()).unwrap_err();
    assert!(refused.to_string().contains("log:2: the line"), "{refused}");
}

#[test]
fn a_line_without_an_end_is_refused() {
    let mut text = "{\"metric\":\"".to_owned();
    text.extend(std::iter::repeat_n('x', 2 * 1024 * 1024));
    assert!(refusal(&text).starts_with("log:1: the line is longer than 1 MiB"));
}

#[test]
fn a_log_that_was_cut_off_is_refused() {
    let row = format!("{JTL}1795780447054,75,a,201,OK,b,text,true,182,40,40,75,2,1795780447000.250,sold,27,order-17");
    assert_eq!(
        refusal(&row),
        "log: the last line has no end; its run was stopped, or it still runs: delete the last line, or wait"
    );
    assert_eq!(read_text(&format!("{row}\n")).requests[0].order.as_deref(), Some("order-17"));
}

#[test]
fn times_that_no_purchase_has_are_refused() {
    for row in ["1,18446744073709551615,a,201,true", "1,86400001,a,201,true"] {
        let refused = refusal(&format!("{PLAIN_JTL}{row}\n"));
        assert!(refused.starts_with("log has a purchase that lasts longer than a day"), "{refused}");
    }
    let early = format!("{JTL}1795780447054,75,a,201,OK,b,text,true,182,40,40,75,2,1.0,sold,27,7\n");
    assert!(refusal(&early).contains("or starts a day from its intended start"));
}
