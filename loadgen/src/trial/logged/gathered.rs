//! The purchases of all logs, by shop and trial.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stats::as_ms;
use stats::figures::things;

use crate::engines::{EngineLog, LoggedRequest};
use crate::error::Error;
use crate::trial::schedule::JudgedLog;

/// Two loads of one trial begin closer together than this. The loads of two runs do not.
const ONE_RUN_WITHIN: Duration = Duration::from_secs(10);

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
    /// The purchases, in no order.
    pub(crate) requests: Vec<LoggedRequest>,
    /// Buyers that are in no log.
    pub(crate) missing: u64,
    /// Whether every log has the answers.
    pub(crate) answers_seen: bool,
    /// The intended start of the first purchase.
    pub(crate) released_at: SystemTime,
}

impl Default for LoggedTrial {
    fn default() -> LoggedTrial {
        LoggedTrial {
            shop: "".into(),
            block: 0,
            users: 0,
            is_burst: false,
            requests: Vec::new(),
            missing: 0,
            answers_seen: true,
            released_at: UNIX_EPOCH,
        }
    }
}

/// A log, and the clock of its machine.
#[derive(Debug)]
pub(crate) struct TimedLog {
    pub(crate) log: EngineLog,
    /// How far the clock was ahead of a common clock, in milliseconds. `None`: nobody compared them.
    pub(crate) clock_ahead_ms: Option<f64>,
}

/// One log's purchases of one trial.
struct LogPart<'a> {
    log: &'a TimedLog,
    requests: Vec<LoggedRequest>,
}

impl LogPart<'_> {
    fn starts(&self) -> impl Iterator<Item = SystemTime> {
        self.requests.iter().map(|request| request.started)
    }

    fn first_start(&self) -> SystemTime {
        self.starts().min().unwrap_or(UNIX_EPOCH)
    }

    fn last_start(&self) -> SystemTime {
        self.starts().max().unwrap_or(UNIX_EPOCH)
    }

    fn file(&self) -> String {
        self.log.log.path.display().to_string()
    }
}

/// Gathers the trials of all logs, in the order of time. Returns what the report tells of each log, too.
///
/// # Errors
///
/// [`Error::Usage`] if a log is of no shop here, if a log is named twice, or if one trial has two runs.
pub(crate) fn gather(
    logs: &[TimedLog],
    gathering: &Gathering<'_>,
) -> Result<(Vec<LoggedTrial>, Vec<JudgedLog>), Error> {
    let mut parts: BTreeMap<(Arc<str>, Option<u32>), Vec<LogPart<'_>>> = BTreeMap::new();
    for log in logs {
        for (key, requests) in by_trial(log, gathering)? {
            parts.entry(key).or_default().push(LogPart { log, requests });
        }
    }
    let mut first_starts: Vec<Duration> = vec![Duration::ZERO; logs.len()];
    let mut trials = Vec::new();
    for ((shop, _), parts) in parts {
        ensure_one_run(&parts)?;
        let first = parts.iter().map(LogPart::first_start).min().unwrap_or(UNIX_EPOCH);
        for part in &parts {
            let Some(number) = logs.iter().position(|log| std::ptr::eq(log, part.log)) else { continue };
            let after = part.first_start().duration_since(first).unwrap_or_default();
            first_starts[number] = first_starts[number].max(after);
        }
        trials.push(trial(shop, parts, gathering.users)?);
    }
    trials.sort_by_key(|trial| trial.released_at);
    number(&mut trials);
    if let Some(shop) = trials.iter().find(|trial| trials_of(&trials, trial).count() <= gathering.warm_ups) {
        let all = things(trials_of(&trials, shop).count(), "trial");
        return Err(Error::Usage(format!(
            "{} has {all}, so none is left after --warm-ups {}",
            shop.shop, gathering.warm_ups
        )));
    }
    let told = logs.iter().zip(first_starts).map(|(log, after)| told(log, after)).collect();
    Ok((trials, told))
}

/// Returns the trials of one subject.
fn trials_of<'a>(all: &'a [LoggedTrial], of: &'a LoggedTrial) -> impl Iterator<Item = &'a LoggedTrial> {
    all.iter().filter(move |trial| trial.shop == of.shop && trial.users == of.users)
}

fn told(TimedLog { log, clock_ahead_ms }: &TimedLog, first_start: Duration) -> JudgedLog {
    JudgedLog {
        file: log.path.display().to_string(),
        engine: log.format.to_string(),
        purchases: log.requests.len() as u64,
        resolution_ms: as_ms(log.resolution),
        answers_seen: log.answers_seen,
        first_start_ms: as_ms(first_start),
        clock_ahead_ms: *clock_ahead_ms,
    }
}

/// Divides the purchases of a log by shop and by trial. All instants are by the common clock.
#[expect(clippy::type_complexity, reason = "the key is a shop and a trial, and has no other use")]
fn by_trial(
    timed: &TimedLog,
    gathering: &Gathering<'_>,
) -> Result<BTreeMap<(Arc<str>, Option<u32>), Vec<LoggedRequest>>, Error> {
    let TimedLog { log, clock_ahead_ms } = timed;
    let purchases: Vec<&LoggedRequest> =
        if log.answers_seen { log.requests.iter().collect() } else { labelled(log, gathering)? };
    let by_common_clock = |at: SystemTime| shifted(at, clock_ahead_ms.unwrap_or(0.0));
    let mut trials: BTreeMap<(Arc<str>, Option<u32>), Vec<LoggedRequest>> = BTreeMap::new();
    for request in purchases {
        let shop = shop_of(log, request, gathering)?;
        let mut request = request.clone();
        request.started = by_common_clock(request.started);
        request.intended = request.intended.map(by_common_clock);
        trials.entry((shop, request.trial)).or_default().push(request);
    }
    Ok(trials)
}

/// Returns an instant by the common clock, if the clock that told it was ahead by this time.
fn shifted(at: SystemTime, ahead_ms: f64) -> SystemTime {
    let by = Duration::try_from_secs_f64(ahead_ms.abs() / 1e3).unwrap_or_default();
    let moved = if ahead_ms > 0.0 { at.checked_sub(by) } else { at.checked_add(by) };
    moved.unwrap_or(at)
}

/// Returns the purchases of a log that has only statuses: the requests with the label of the purchase.
fn labelled<'a>(log: &'a EngineLog, gathering: &Gathering<'_>) -> Result<Vec<&'a LoggedRequest>, Error> {
    let labels: BTreeSet<&str> = log.requests.iter().map(|request| &*request.label).collect();
    let all = labels.iter().map(|label| format!("{label:?}")).collect::<Vec<_>>().join(", ");
    let file = log.path.display();
    match gathering.label {
        Some(label) if labels.contains(label) => {
            Ok(log.requests.iter().filter(|request| &*request.label == label).collect())
        }
        Some(label) => Err(Error::Usage(format!(
            "{file} has no request named {label:?}; it has {all}; name one of them by --label"
        ))),
        None if labels.len() > 1 => Err(Error::Usage(format!(
            "{file} has requests named {all}, and only statuses; name the purchase by --label"
        ))),
        None => Ok(log.requests.iter().collect()),
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

/// Refuses parts of one trial that were loaded one after the other. As one trial, they would sell the stock twice.
fn ensure_one_run(parts: &[LogPart<'_>]) -> Result<(), Error> {
    let mut in_order: Vec<&LogPart<'_>> = parts.iter().collect();
    in_order.sort_by_key(|part| part.first_start());
    for pair in in_order.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        let pause = later.first_start().duration_since(earlier.last_start()).unwrap_or_default();
        if pause > ONE_RUN_WITHIN {
            return Err(Error::Usage(format!(
                "{} and {} have the same trial, and {} s lie between their purchases: they look like two runs. Number the runs by \
                 TRIAL, or judge each by itself",
                earlier.file(),
                later.file(),
                pause.as_secs()
            )));
        }
    }
    Ok(())
}

/// Makes a trial of its parts.
fn trial(shop: Arc<str>, parts: Vec<LogPart<'_>>, users: Option<u32>) -> Result<LoggedTrial, Error> {
    let intended: BTreeSet<Option<SystemTime>> = parts
        .iter()
        .flat_map(|part| {
            part.requests.iter().map(|request| {
                // By the clock of its machine, all begin at one instant.
                request.intended.map(|at| shifted(at, -part.log.clock_ahead_ms.unwrap_or(0.0)))
            })
        })
        .collect();
    let is_burst = matches!(intended.first(), Some(Some(_))) && intended.len() == 1;
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    let mut is_once = true;
    for part in &parts {
        for buyer in part.requests.iter().filter_map(|request| request.buyer.as_deref()) {
            if let Some(other) = files.insert(buyer, part.file()) {
                is_once = false;
                if is_burst {
                    return Err(Error::Usage(format!(
                        "buyer {buyer} of {shop} buys in {other} and in {}; name each log once, and give no two machines the same \
                         buyers",
                        part.file()
                    )));
                }
            }
        }
    }
    let numbers: BTreeSet<u64> = files.keys().filter_map(|buyer| buyer.parse().ok()).collect();
    let named = files.len() as u64;
    let highest = numbers.last().map_or(0, |last| last + 1);
    let expected = users.map_or(0, u64::from).max(if is_burst && numbers.len() as u64 == named { highest } else { 0 });
    let answers_seen = parts.iter().all(|part| part.log.log.answers_seen);
    let requests: Vec<LoggedRequest> = parts.into_iter().flat_map(|part| part.requests).collect();
    let buyers = if named > 0 { named } else { requests.len() as u64 };
    let released_at = requests.iter().map(|request| request.intended.unwrap_or(request.started)).min();
    Ok(LoggedTrial {
        shop,
        block: 0,
        users: u32::try_from(buyers.max(expected)).unwrap_or(u32::MAX),
        is_burst: is_burst && is_once,
        missing: expected.saturating_sub(buyers),
        answers_seen,
        released_at: released_at.unwrap_or(UNIX_EPOCH),
        requests,
    })
}

/// Numbers the trials of each subject, which are in the order of time.
fn number(trials: &mut [LoggedTrial]) {
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
