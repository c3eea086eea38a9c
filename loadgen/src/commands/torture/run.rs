//! The rounds of a torture run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use buyers::habits::PaymentHabits;
use buyers::model::{Arrivals, LoadModel};
use program::{FromSystem as _, Interrupt, Progress};
use serde::Serialize;
use stats::figures::{count, things};
use weather::{Fault, Targets, written};

use crate::error::Error;
use crate::judge::round::{RoundFindings, judge};
use crate::lab::environment::cores;
use crate::lab::forecast::Forecast;
use crate::lab::stack::Stack;
use crate::lab::strategy::{Mechanism, Strategy, as_file_name};
use crate::lab::technique::Technique;
use crate::report::files::Files;
use crate::report::torture::{ROUND_SCHEMA, TortureReport};
use crate::trial::lab::round::round;
use crate::trial::round::{KeptRound, Round};
use crate::trial::run::Conditions;
use crate::trial::schedule::{ScheduledTrial, Subject};

/// The name of the file in the folder of a run.
pub(super) const JSON: &str = "torture.json";
/// How the names of the files of kept rounds begin and end.
const ROUND: [&str; 2] = ["round-", ".json"];
/// How the text of a file begins that this program wrote: the name of its format, without the version.
const WRITTEN: &str = "{\"schema\":\"seckill-torture";
/// The SKU on sale.
const GOODS_NO: i64 = 1;
/// The longest time of a fault: longer than every deadline of a purchase.
const LASTS_MAX: Duration = Duration::from_secs(20);
/// How long buyers go on coming after the last fault has ended.
const TAIL: Duration = Duration::from_secs(5);
/// The share of the buyers that get a unit if the stock does not last: so few that faults seldom keep it from being sold out.
const SCARCE: f64 = 0.2;
/// The stock for each buyer, if it does.
const AMPLE: f64 = 2.0;

/// Writes something as JSON.
pub(super) fn write(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    let json = serde_json::to_string(what).map_err(|error| Error::Generator(format!("{error}")))?;
    fs::write(path, json + "\n").map_err(Error::system(format!("write {}", path.display())))
}

/// Removes what an earlier run has left in the folder, so that it does not pass for a result of this one. Files of others stay.
pub(super) fn remove_old(folder: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::system(format!("list the folder {}", folder.display())))?;
    let [begins, ends] = ROUND;
    for entry in entries {
        let entry = entry.map_err(Error::system(format!("list the folder {}", folder.display())))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_named = name == JSON || (name.starts_with(begins) && name.ends_with(ends));
        if !is_named || !fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with(WRITTEN)) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::system(format!("remove the old {}", entry.path().display()))(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// What all rounds have in common.
pub(super) struct RunSettings<'a> {
    pub(super) strategies: &'a [Strategy],
    pub(super) faults: &'a [Fault],
    pub(super) files: &'a Files,
    /// The seed of the first round.
    pub(super) seed: u64,
    /// How many rounds there are, if there is a number.
    pub(super) rounds: Option<u64>,
    /// For how long rounds are begun, if there is a time.
    pub(super) lasting: Option<Duration>,
    /// Time within which faults begin in a round.
    pub(super) length: Duration,
    /// The shortest and the longest pause after a fault.
    pub(super) calm: [Duration; 2],
    /// Buyers a second.
    pub(super) rate: f64,
    /// Instances of the service.
    pub(super) instances: u16,
    /// How long a buyer waits for the lock.
    pub(super) lock_wait: Duration,
    /// How many buyers may wait for their answers at a time.
    pub(super) users: u32,
    /// ZooKeeper servers.
    pub(super) servers: usize,
}

impl RunSettings<'_> {
    /// Runs rounds until there are enough.
    pub(super) async fn all(
        &self,
        stack: &mut Stack,
        report: &mut TortureReport,
        (interrupt, progress): (&Interrupt, &Progress),
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let strategies = self.strategies.len() as u64;
        for number in 0.. {
            let is_enough = match (self.rounds, self.lasting) {
                (Some(rounds), _) => number >= rounds,
                (None, Some(lasting)) => begun.elapsed() >= lasting,
                (None, None) => number >= strategies,
            };
            if is_enough {
                break;
            }
            let strategy = &self.strategies[usize::try_from(number % strategies).unwrap_or_default()];
            let seed = self.seed.wrapping_add(number);
            let written = written(seed);
            progress.stage(&format!("round {}, seed {written}: {}", number + 1, strategy.name));
            let kept = interrupt.or(self.round(stack, strategy, seed)).await?;
            progress.stage(&told(number, &kept.round));
            if !kept.round.is_whole() {
                let [begins, ends] = ROUND;
                let strategy = as_file_name(&strategy.name, None, None);
                write(&self.files.path(&format!("{begins}{seed}-{strategy}{ends}")), &kept)?;
            }
            report.rounds.push(kept.round);
            // A run may last for hours, and end in any way.
            write(&self.files.path(JSON), report)?;
        }
        Ok(())
    }

    async fn round(&self, stack: &mut Stack, strategy: &Strategy, seed: u64) -> Result<KeptRound, Error> {
        let RunSettings { length, rate, lock_wait, users, servers, .. } = *self;
        let instances = usize::from(self.instances);
        // A round has the same faults whichever strategies sell in other rounds.
        let has_redis = strategy.mechanism == Mechanism::Redis;
        let faults: Vec<Fault> =
            self.faults.iter().filter(|fault| has_redis || !fault.site.needs_redis()).copied().collect();
        let targets =
            Targets { faults: &faults, processes: instances, servers, length, lasts_max: LASTS_MAX, calm: self.calm };
        let Forecast { is_scarce, is_limited, coming } = Forecast::draw(seed, &targets);
        let last = coming.iter().map(|coming| coming.ends).max().unwrap_or(length);
        let duration = last + TAIL;
        let buyers = rate * duration.as_secs_f64();
        let share = if is_scarce { SCARCE } else { AMPLE };
        let conditions = Conditions {
            model: LoadModel::Open {
                rate_per_s: rate,
                arrivals: Arrivals::Poisson,
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            },
            seed: u32::try_from(seed & u64::from(u32::MAX)).unwrap_or_default(),
            stock: units(buyers * share),
            per_buyer: is_limited.then_some(1),
            habits: PaymentHabits::default(),
            goods_nos: vec![GOODS_NO],
            lock_wait,
            cores: cores(),
            goose_reports: None,
            log_max: 0,
        };
        let subject = Subject::of(strategy, users);
        let scheduled = ScheduledTrial { block: 0, warm_up: false, subject: &subject };
        let exposed = stack.exposed(None).ok_or_else(|| Error::Generator("there is no service".to_owned()))?;
        let (seen, evidence) = round(exposed, &conditions, strategy, (scheduled, &coming)).await?;
        let RoundFindings { broken, hazards, unchecked } = judge(strategy.promise, &seen);
        let promise = strategy.promise;
        let kind = Technique::of(strategy);
        let strategy = strategy.name.clone();
        let round = Round { strategy, promise, kind, seed, seen, broken, hazards, unchecked };
        Ok(KeptRound { schema: ROUND_SCHEMA.to_owned(), round, evidence })
    }
}

/// Returns a number of units, at least one.
fn units(wanted: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float keeps to the bounds"
    )]
    let units = wanted as u32;
    units.max(1)
}

/// Writes a round in a line.
fn told(number: u64, round: &Round) -> String {
    let answers = &round.seen.answers;
    let found = match (round.broken.is_empty(), round.hazards.is_empty()) {
        (false, _) => "BROKEN",
        (true, false) => "hazard seen",
        (true, true) => "kept",
    };
    let failed = round.seen.faults.iter().filter(|fault| fault.failed.is_some()).count();
    let unchecked = if round.unchecked.is_empty() { "" } else { ", but not everything was checked" };
    let not_made =
        if failed == 0 { String::new() } else { format!(", and {} not made or not ended", things(failed, "fault")) };
    format!(
        "round {}, {} under {}: {} of {} sold, {} refused, {} unknown: {found}{unchecked}{not_made}",
        number + 1,
        round.strategy,
        things(round.seen.faults.len(), "fault"),
        count(answers.sold),
        count(answers.total()),
        count(answers.refused),
        count(answers.failed()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::trial::Audit;
    use crate::lab::strategy::Promise;
    use crate::trial::round::{FaultRecord, RoundSeen};

    fn round(faults: Vec<FaultRecord>, unchecked: &[&str]) -> Round {
        Round {
            strategy: "pg-merge".to_owned(),
            promise: Promise::NeverOversells,
            kind: Technique::Postgres,
            seed: 7,
            seen: RoundSeen::example(faults, Audit::default()),
            broken: Vec::new(),
            hazards: Vec::new(),
            unchecked: unchecked.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn a_round_is_kept_only_as_far_as_it_was_checked() {
        let failed = FaultRecord { failed: Some("no".to_owned()), ..FaultRecord::example(1.0) };
        assert!(told(0, &round(vec![FaultRecord::example(1.0)], &[])).ends_with(": kept"));
        let told = told(0, &round(vec![failed], &["a gap"]));
        assert!(told.ends_with(": kept, but not everything was checked, and 1 fault not made or not ended"), "{told}");
    }

    #[test]
    fn only_files_of_this_program_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(JSON, "{\"schema\":\"seckill-torture/2\"}");
        write("round-7-zk-mutex.json", "{\"schema\":\"seckill-torture-round/1\"}");
        write("round-8-zk-mutex.json", "{\"what\":\"of another program\"}");
        write("notes.json", "{\"schema\":\"seckill-torture/2\"}");
        remove_old(folder.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        assert_eq!(left, ["notes.json", "round-8-zk-mutex.json"]);
    }
}
