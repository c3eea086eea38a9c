//! The purchases of all logs, by shop and trial.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stats::as_ms;
use stats::figures::things;

use crate::engines::{EngineLog, LoggedRequest};
use crate::error::Error;
use crate::trial::schedule::JudgedLog;

/// The longest time in a run in which nobody buys.
const ONE_RUN_WITHIN: Duration = Duration::from_secs(10);

/// The most labels that an error names.
const LABELS_SHOWN: usize = 5;

/// How logs are read.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    /// The names of the shops.
    pub(crate) shops: Vec<&'a str>,
    /// The label of the purchases, for logs without answers.
    pub(crate) label: Option<&'a str>,
    /// The users of the load, if they are known. Buyers in no log are missing.
    pub(crate) users: Option<u32>,
    /// Trials of each shop, from the first on, that only warm up.
    pub(crate) warm_ups: usize,
}

/// The purchases of one trial.
#[derive(Debug, Clone)]
pub(crate) struct LoggedTrial {
    /// The name of its shop.
    pub(crate) shop: Arc<str>,
    /// Number of its block, from zero.
    pub(crate) block: usize,
    /// Number of buyers. If a load is no burst, the most that any trial has.
    pub(crate) users: u32,
    /// Whether each buyer bought once, and all were meant to buy at the same instant.
    pub(crate) is_burst: bool,
    /// Whether each buyer bought once.
    pub(crate) is_once: bool,
    /// The purchases, in no order.
    pub(crate) requests: Vec<LoggedRequest>,
    /// Buyers that are in no log.
    pub(crate) missing: u64,
    /// Whether nobody else can have bought, because the number of users is known.
    pub(crate) is_complete: bool,
    /// Whether every log has the answers.
    pub(crate) answers_seen: bool,
    /// The intended start of the first purchase.
    pub(crate) released_at: SystemTime,
    /// The end of the last purchase.
    pub(crate) ended_at: SystemTime,
}

/// A log, and the clock of its machine.
#[derive(Debug)]
pub(crate) struct TimedLog {
    pub(crate) log: EngineLog,
    /// How far the clock was ahead of a common clock, in milliseconds. `None`: nobody compared them.
    pub(crate) clock_ahead_ms: Option<f64>,
}

/// A trial of a shop, as logs name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TrialInLogs {
    shop: Arc<str>,
    number: Option<u32>,
}

/// One log's purchases of one trial.
struct LogPart {
    /// The position of the log.
    log: usize,
    requests: Vec<LoggedRequest>,
}

impl LogPart {
    fn first_start(&self) -> SystemTime {
        self.requests.iter().map(|request| request.started).min().unwrap_or(UNIX_EPOCH)
    }

    fn buyers(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().filter_map(|request| request.buyer.as_deref())
    }
}

/// Gathers the trials of all logs, in the order of time. Returns what the report tells of each log, too.
///
/// # Errors
///
/// [`Error::Usage`] if a log is of no shop here, if a log is named twice, or if one trial has two runs.
pub(crate) fn gather(
    logs: Vec<TimedLog>,
    gathering: &Gathering<'_>,
) -> Result<(Vec<LoggedTrial>, Vec<JudgedLog>), Error> {
    let mut judged: Vec<JudgedLog> = logs.iter().map(judged_log).collect();
    let mut parts: BTreeMap<TrialInLogs, Vec<LogPart>> = BTreeMap::new();
    for (number, log) in logs.into_iter().enumerate() {
        for (trial, requests) in by_trial(log, gathering)? {
            judged[number].purchases += requests.len() as u64;
            judged[number].is_intended &= requests.iter().all(|request| request.intended.is_some());
            parts.entry(trial).or_default().push(LogPart { log: number, requests });
        }
    }
    let mut trials = Vec::new();
    for (TrialInLogs { shop, .. }, parts) in parts {
        ensure_one_run(&parts, &judged)?;
        if let [_, _, ..] = &parts[..] {
            note_spread(&parts, &mut judged);
        }
        trials.push(trial(shop, parts, &judged, gathering.users)?);
    }
    trials.sort_by_key(|trial| trial.released_at);
    ensure_one_after_another(&trials)?;
    number_blocks(&mut trials);
    if let Some(shop) = trials.iter().find(|trial| trials_of(&trials, trial).count() <= gathering.warm_ups) {
        let all = things(trials_of(&trials, shop).count(), "trial");
        return Err(Error::Usage(format!(
            "{} has {all} with {}, so none is left after --warm-ups {}; if buyers are missing in a log, --users says how many there were",
            shop.shop,
            things(shop.users, "user"),
            gathering.warm_ups
        )));
    }
    Ok((trials, judged))
}

/// Notes how long after the first log of a trial each other one began.
fn note_spread(parts: &[LogPart], logs: &mut [JudgedLog]) {
    let first = parts.iter().map(LogPart::first_start).min().unwrap_or(UNIX_EPOCH);
    for part in parts {
        let after = as_ms(part.first_start().duration_since(first).unwrap_or_default());
        let log = &mut logs[part.log];
        log.first_start_ms = Some(log.first_start_ms.map_or(after, |before| before.max(after)));
    }
}

/// Refuses trials of one shop that overlap: it has one sale at a time.
fn ensure_one_after_another(trials: &[LoggedTrial]) -> Result<(), Error> {
    let mut ends: BTreeMap<&str, SystemTime> = BTreeMap::new();
    for trial in trials {
        let end = ends.entry(&trial.shop).or_insert(UNIX_EPOCH);
        if trial.released_at < *end {
            return Err(Error::Usage(format!(
                "two trials of {} overlap, and it has one sale at a time; give all machines of a run the same TRIAL, and judge logs \
                 without TRIAL by themselves",
                trial.shop
            )));
        }
        *end = trial.ended_at;
    }
    Ok(())
}

/// Returns the trials of one subject.
fn trials_of<'a>(all: &'a [LoggedTrial], of: &'a LoggedTrial) -> impl Iterator<Item = &'a LoggedTrial> {
    all.iter().filter(move |trial| trial.shop == of.shop && trial.users == of.users)
}

/// Describes a log whose purchases are not counted yet.
fn judged_log(TimedLog { log, clock_ahead_ms }: &TimedLog) -> JudgedLog {
    JudgedLog {
        file: log.path.display().to_string(),
        engine: log.format.to_string(),
        purchases: 0,
        resolution_ms: as_ms(log.resolution),
        answers_seen: log.answers_seen,
        is_intended: true,
        first_start_ms: None,
        clock_ahead_ms: *clock_ahead_ms,
    }
}

/// Divides the purchases of a log by shop and by trial. All instants are by the common clock.
fn by_trial(
    TimedLog { mut log, clock_ahead_ms }: TimedLog,
    gathering: &Gathering<'_>,
) -> Result<BTreeMap<TrialInLogs, Vec<LoggedRequest>>, Error> {
    if !log.answers_seen {
        let label = label(&log, gathering)?;
        log.requests.retain(|request| request.label == label);
    }
    let by_common_clock = |at: SystemTime| shifted(at, clock_ahead_ms.unwrap_or(0.0));
    let requests = std::mem::take(&mut log.requests);
    let mut trials: BTreeMap<TrialInLogs, Vec<LoggedRequest>> = BTreeMap::new();
    for mut request in requests {
        let trial = TrialInLogs { shop: shop_of(&log, &request, gathering)?, number: request.trial };
        request.started = by_common_clock(request.started);
        request.intended = request.intended.map(by_common_clock);
        trials.entry(trial).or_default().push(request);
    }
    Ok(trials)
}

/// Returns an instant by the common clock, if the clock that told it was ahead by this time.
fn shifted(at: SystemTime, ahead_ms: f64) -> SystemTime {
    let by = Duration::try_from_secs_f64(ahead_ms.abs() / 1e3).unwrap_or_default();
    let moved = if ahead_ms > 0.0 { at.checked_sub(by) } else { at.checked_add(by) };
    moved.unwrap_or(at)
}

/// Returns the label of the purchases in a log that has only statuses.
fn label(log: &EngineLog, gathering: &Gathering<'_>) -> Result<Arc<str>, Error> {
    let labels: BTreeSet<&Arc<str>> = log.requests.iter().map(|request| &request.label).collect();
    let mut all: Vec<String> = labels.iter().take(LABELS_SHOWN).map(|label| format!("{label:?}")).collect();
    if labels.len() > LABELS_SHOWN {
        all.push(format!("and {} more", labels.len() - LABELS_SHOWN));
    }
    let all = all.join(", ");
    let file = log.path.display();
    let wanted = |label: &&Arc<str>| gathering.label.is_none_or(|wanted| wanted == &***label);
    let mut found = labels.iter().copied().filter(wanted);
    match (found.next(), found.next(), gathering.label) {
        (Some(label), None, _) => Ok(Arc::clone(label)),
        (_, _, Some(label)) => Err(Error::Usage(format!(
            "{file} has no request named {label:?}; it has {all}; name one of them by --label"
        ))),
        _ => Err(Error::Usage(format!(
            "{file} has requests named {all}, and only statuses; name the purchase by --label, and let the engine give all of them \
             one name"
        ))),
    }
}

/// Finds the shop of a purchase. A log without answers does not name it.
fn shop_of(log: &EngineLog, request: &LoggedRequest, gathering: &Gathering<'_>) -> Result<Arc<str>, Error> {
    let shops = &gathering.shops;
    let file = log.path.display();
    match shops.as_slice() {
        [one] if !log.answers_seen => Ok((*one).into()),
        _ if !log.answers_seen => {
            Err(Error::Usage(format!("{file} has only statuses and does not name its shop; judge it with one --shop")))
        }
        shops if shops.contains(&&*request.label) => Ok(Arc::clone(&request.label)),
        shops => Err(Error::Usage(format!(
            "{file} has purchases at {:?}, and --shop describes {}; name the file of that shop by --shop",
            &*request.label,
            shops.iter().map(|shop| format!("{shop:?}")).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Refuses a trial of two runs. As one trial, they would sell the stock twice.
fn ensure_one_run(parts: &[LogPart], logs: &[JudgedLog]) -> Result<(), Error> {
    let times = |part: &LogPart| {
        let log = part.log;
        part.requests.iter().map(move |request| (request.started, request.started + request.duration, log)).collect()
    };
    let mut purchases: Vec<(SystemTime, SystemTime, usize)> = parts.iter().flat_map::<Vec<_>, _>(times).collect();
    purchases.sort_unstable();
    // The last purchase to end so far.
    let mut last: Option<(SystemTime, usize)> = None;
    for (started, ended, log) in purchases {
        let idle = last.and_then(|(at, _)| started.duration_since(at).ok());
        if let (Some((_, before)), Some(idle)) = (last, idle.filter(|idle| *idle > ONE_RUN_WITHIN)) {
            let [before, after] = [before, log].map(|log| &logs[log].file);
            let who = if before == after {
                format!("{before} has one trial")
            } else {
                format!("{before} and {after} have the same trial")
            };
            return Err(Error::Usage(format!(
                "{who} in which nobody bought for {} s: it looks like two runs. Number the runs by \
                 TRIAL, each in a new file, or judge each by itself; --clock names a clock that is wrong",
                idle.as_secs()
            )));
        }
        last = last.max(Some((ended, log)));
    }
    Ok(())
}

/// Makes a trial of its parts.
fn trial(shop: Arc<str>, parts: Vec<LogPart>, logs: &[JudgedLog], users: Option<u32>) -> Result<LoggedTrial, Error> {
    let begins_together = all_begin_together(&parts, logs);
    ensure_once(&shop, &parts, logs, begins_together)?;
    let named: BTreeSet<&str> = parts.iter().flat_map(LogPart::buyers).collect();
    let all: usize = parts.iter().map(|part| part.requests.len()).sum();
    let bought = if named.is_empty() { all as u64 } else { named.len() as u64 };
    let expected = match users {
        Some(users) => u64::from(users),
        None if begins_together => numbered(&named),
        None => 0,
    };
    let is_once = named.is_empty() || named.len() == all;
    let answers_seen = parts.iter().all(|part| logs[part.log].answers_seen);
    let requests: Vec<LoggedRequest> = parts.into_iter().flat_map(|part| part.requests).collect();
    let released_at = requests.iter().map(|request| request.intended.unwrap_or(request.started)).min();
    let ended_at = requests.iter().map(|request| request.started + request.duration).max();
    Ok(LoggedTrial {
        shop,
        block: 0,
        users: u32::try_from(bought.max(expected)).unwrap_or(u32::MAX),
        is_burst: begins_together && is_once,
        is_once,
        missing: expected.saturating_sub(bought),
        is_complete: users.is_some(),
        answers_seen,
        released_at: released_at.unwrap_or(UNIX_EPOCH),
        ended_at: ended_at.unwrap_or(UNIX_EPOCH),
        requests,
    })
}

/// Returns how many buyers there are if each has a number, and few numbers are missing between the least and the greatest. Zero if
/// the names are no such numbers.
fn numbered(names: &BTreeSet<&str>) -> u64 {
    let numbers: Option<BTreeSet<u64>> = names.iter().map(|name| name.parse().ok()).collect();
    let numbers = numbers.unwrap_or_default();
    let span = numbers.first().zip(numbers.last()).map_or(0, |(least, greatest)| (greatest - least).saturating_add(1));
    if span <= 2 * numbers.len() as u64 { span } else { 0 }
}

/// Refuses a purchase that is in two logs, and in a burst also a buyer that buys twice.
fn ensure_once(shop: &str, parts: &[LogPart], logs: &[JudgedLog], is_burst: bool) -> Result<(), Error> {
    let mut seen: BTreeMap<(&str, Option<SystemTime>), usize> = BTreeMap::new();
    for part in parts {
        for LoggedRequest { buyer, intended, .. } in &part.requests {
            let Some(buyer) = buyer.as_deref().filter(|_| intended.is_some()) else { continue };
            let Some(other) = seen.insert((buyer, intended.filter(|_| !is_burst)), part.log) else { continue };
            let file = &logs[part.log].file;
            if other != part.log {
                return Err(Error::Usage(format!(
                    "buyer {buyer} of {shop} buys in {} and in {file}; name each log once, and give no two machines the same buyers",
                    logs[other].file
                )));
            }
            if is_burst {
                return Err(Error::Usage(format!(
                    "{file} has buyer {buyer} of {shop} twice in one burst; use a new file for each run, and number the runs by TRIAL"
                )));
            }
        }
    }
    Ok(())
}

/// Tells whether all purchases were meant to start at the same instant, each by the clock of its machine.
fn all_begin_together(parts: &[LogPart], logs: &[JudgedLog]) -> bool {
    let mut intended = parts.iter().flat_map(|part| {
        let ahead_ms = logs[part.log].clock_ahead_ms.unwrap_or(0.0);
        part.requests.iter().map(move |request| request.intended.map(|at| shifted(at, -ahead_ms)))
    });
    let first = intended.next().flatten();
    first.is_some() && intended.all(|at| at == first)
}

/// Numbers the trials of each subject, which are in the order of time.
fn number_blocks(trials: &mut [LoggedTrial]) {
    if trials.iter().any(|trial| !trial.is_burst) {
        // The number of buyers is chance then, and no setting.
        let most = trials.iter().map(|trial| trial.users).max().unwrap_or_default();
        trials.iter_mut().for_each(|trial| trial.users = most);
    }
    let mut counts: BTreeMap<(Arc<str>, u32), usize> = BTreeMap::new();
    for trial in trials {
        let count = counts.entry((Arc::clone(&trial.shop), trial.users)).or_default();
        trial.block = *count;
        *count += 1;
    }
}

#[cfg(test)]
mod tests;
