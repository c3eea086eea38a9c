//! Rounds in which libraries contend for the same locks while drawn faults strike.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use program::{Exit, Interrupt, chain, print, tell};
use stats::figures::things;
use weather::{CALM, Targets, draw, draws_of, parse_seed, written};

use crate::TortureError;
use crate::flags::{ChosenStand, StandFlags};
use crate::judge::Findings;
use crate::report::verdict;
use crate::round::{RoundPlan, RoundRecord, round};
use crate::stand::SERVERS;

/// The longest time of a fault: sessions end, and are opened again.
const LASTS_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(mut_arg("libraries", |arg| arg.default_value("zk-recipes,zk-recipes,curator,kazoo")))]
pub(crate) struct StormsArgs {
    #[command(flatten)]
    stand: StandFlags,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "lasting")]
    rounds: u64,
    /// Begins rounds for this long
    #[arg(long = "for", id = "lasting", value_name = "TIME", value_parser = humantime::parse_duration)]
    lasting: Option<Duration>,
    /// Seed of the first round; each later round has the next one [default: random]
    #[arg(long, value_name = "N", value_parser = parse_seed)]
    seed: Option<u64>,
    /// Time within which faults begin in a round
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    length: Duration,
}

/// What all rounds have shown.
#[derive(Debug, Default)]
struct StormsTally {
    rounds: u64,
    asked: u64,
    granted: u64,
    lost: u64,
    sessions_replaced: u64,
    not_made: u64,
    faults: BTreeMap<String, u64>,
    two_holders: BTreeMap<String, Duration>,
    broken: Vec<String>,
    hazards: u64,
    unchecked: Vec<String>,
}

/// Runs the rounds, and prints what they have shown.
pub(crate) async fn storms(args: &StormsArgs, interrupt: &Interrupt) -> Result<Exit, TortureError> {
    let ChosenStand { libraries, faults, mut servers, progress } = args.stand.start(interrupt, true).await?;
    let first = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>() / 2));
    let begun = Instant::now();
    let mut tally = StormsTally::default();
    let ended = loop {
        let is_enough = args.lasting.map_or(tally.rounds >= args.rounds, |lasting| begun.elapsed() >= lasting);
        if is_enough {
            break Ok(());
        }
        let seed = first + tally.rounds;
        progress.stage(&format!("round {}, seed {}", tally.rounds + 1, written(seed)));
        let targets = Targets {
            faults: &faults,
            processes: libraries.len(),
            servers: SERVERS,
            length: args.length,
            lasts_max: LASTS_MAX,
            calm: CALM,
        };
        let coming = draw(&mut draws_of(seed), &targets);
        let plan = RoundPlan { libraries: &libraries, seed, coming: &coming, length: args.length, mutex_only: false };
        let record = match interrupt.or(round(&mut servers, plan)).await {
            Ok(record) => record,
            Err(error) => break Err(error),
        };
        let findings = args.stand.judge(&format!("round-{seed}"), &record)?;
        tally.add(&record, findings, seed);
    };
    progress.finish();
    print(&tally.text()).map_err(TortureError::Output)?;
    match ended {
        Err(error) if tally.broken.is_empty() => Err(error),
        Err(error) => {
            tell(format_args!("error: {}", chain(&error)));
            Ok(tally.exit())
        }
        Ok(()) => Ok(tally.exit()),
    }
}

impl StormsTally {
    fn add(&mut self, record: &RoundRecord, findings: Findings, seed: u64) {
        let Findings { broken, hazards, unchecked, two_holders } = findings;
        self.rounds += 1;
        self.asked += record.history.operations.len() as u64;
        let count = |is: fn(&crate::history::Operation) -> bool| {
            record.history.operations.iter().filter(|operation| is(operation)).count() as u64
        };
        self.granted += count(|operation| operation.acquired.is_some());
        self.lost += count(|operation| operation.lost.is_some());
        self.sessions_replaced += record.sessions_replaced;
        for fault in &record.faults {
            match &fault.failed {
                None => *self.faults.entry(fault.fault.to_string()).or_default() += 1,
                Some(why) => {
                    self.not_made += 1;
                    self.unchecked.push(format!("seed {seed}: {} was not made: {why}", fault.fault));
                }
            }
        }
        for (library, time) in two_holders {
            *self.two_holders.entry(library).or_default() += time;
        }
        self.hazards += hazards.len() as u64;
        self.broken.extend(broken.into_iter().map(|line| format!("seed {seed}: {line}")));
        self.unchecked.extend(unchecked.into_iter().map(|line| format!("seed {seed}: {line}")));
    }

    fn text(&self) -> String {
        let Self { rounds, asked, granted, lost, sessions_replaced, hazards, .. } = self;
        let faults: u64 = self.faults.values().sum();
        let mut text = format!(
            "{}, {} of {}, {sessions_replaced} sessions replaced\n\
             {asked} acquires, {granted} granted, {lost} holds told as lost\n",
            things(*rounds, "round"),
            things(faults, "fault"),
            things(self.faults.len(), "kind"),
        );
        for (library, time) in &self.two_holders {
            text += &format!("two holders for {:.3} s, because {library} still said \"held\"\n", time.as_secs_f64());
        }
        text += &format!("{hazards} hazards of other libraries\n");
        for line in &self.unchecked {
            text += &format!("unchecked: {line}\n");
        }
        for line in &self.broken {
            text += &format!("BROKEN: {line}\n");
        }
        text
    }

    fn exit(&self) -> Exit {
        verdict(self.broken.is_empty(), self.unchecked.is_empty())
    }
}
