//! Measures how often the 95 % intervals of the reports cover the truth, on blocks like those of a comparison: `make coverage`.
//!
//! Every block has a pace of its own, as trials have. Its times are lognormal, or some buyers are three times as slow, or
//! some trials are, or the pace drifts over the run. The last two columns are the percentile bootstrap over the blocks.
//! Earlier versions drew the intervals of ratios and of a p99 by it.

#![expect(clippy::print_stdout, reason = "the table is the output")]

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use stats::{as_f64, median, median_interval, paired, unpaired};

/// Samples of each row.
const SAMPLES: usize = 1000;
/// Resamples of a bootstrap interval.
const RESAMPLES: usize = 400;
/// Times in a block.
const BUYERS: usize = 100;
/// Blocks from which the true figures are computed.
const BLOCKS_OF_TRUTH: usize = 20_000;

type Interval = Option<(f64, f64)>;

/// How the times of blocks are distributed.
#[derive(Debug, Clone, Copy)]
enum TimesKind {
    Lognormal,
    SlowBuyers,
    SlowTrials,
    Drifting,
}

impl TimesKind {
    fn name(self) -> &'static str {
        match self {
            TimesKind::Lognormal => "lognormal",
            TimesKind::SlowBuyers => "two modes: 30 % of the buyers are slow",
            TimesKind::SlowTrials => "two modes: 20 % of the trials are slow",
            TimesKind::Drifting => "drifting by a half",
        }
    }

    /// Draws the times of a block in milliseconds, at this part of the run. Returns them in ascending order.
    fn block(self, part: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        let speed = match self {
            TimesKind::SlowTrials if random.random_bool(0.2) => 3.0,
            TimesKind::Drifting => 1.0 + 0.5 * part,
            _ => 1.0,
        };
        let pace = 10.0 * speed * (0.15 * normal(random)).exp();
        let mut time = || {
            let slow = if matches!(self, TimesKind::SlowBuyers) && random.random_bool(0.3) { 3.0 } else { 1.0 };
            pace * slow * (0.4 * normal(random)).exp()
        };
        let mut times: Vec<f64> = (0..BUYERS).map(|_| time()).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    fn run(self, blocks: usize, random: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        (0..blocks).map(|block| self.block(as_f64(block) / as_f64(blocks), random)).collect()
    }
}

fn main() {
    println!("| times | blocks | ratio | median | between sides | bootstrap: ratio | bootstrap: p99 |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for kind in [TimesKind::Lognormal, TimesKind::SlowBuyers, TimesKind::SlowTrials, TimesKind::Drifting] {
        for blocks in [6, 8, 10, 20] {
            let shares = coverage(kind, blocks).map(|share| format!("{:.1} %", share * 100.0));
            println!("| {} | {blocks} | {} |", kind.name(), shares.join(" | "));
        }
    }
}

/// Returns the shares of the samples whose intervals cover the truth.
fn coverage(kind: TimesKind, blocks: usize) -> [f64; 5] {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let truth = kind.run(BLOCKS_OF_TRUTH, &mut random);
    let all = merged(truth.iter());
    let median_true = median(&medians(&truth));
    let mut covered = [0_usize; 5];
    for _ in 0..SAMPLES {
        let [ours, theirs] = [(); 2].map(|()| kind.run(blocks, &mut random));
        let [logs, others] = [&ours, &theirs].map(|run| medians(run).into_iter().map(f64::ln).collect::<Vec<_>>());
        let ratios: Vec<f64> = logs.iter().zip(&others).map(|(a, b)| a - b).collect();
        let found = [
            (paired::interval(&ratios), Some(0.0)),
            (median_interval(&medians(&ours)), median_true),
            (unpaired::interval(&logs, &others), Some(0.0)),
            (bootstrap(blocks, &mut random, |drawn| of(&ratios, drawn, paired::hodges_lehmann)), Some(0.0)),
            (
                bootstrap(blocks, &mut random, |drawn| Some(quantile(&merged(drawn.iter().map(|i| &ours[*i])), 0.99))),
                Some(quantile(&all, 0.99)),
            ),
        ];
        for (count, (interval, truth)) in covered.iter_mut().zip(found) {
            let covers = |(low, high): (f64, f64)| truth.is_some_and(|truth| low <= truth && truth <= high);
            *count += usize::from(interval.is_some_and(covers));
        }
    }
    covered.map(|count| as_f64(count) / as_f64(SAMPLES))
}

/// Draws a normal number from two uniform ones (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let [radius, angle] = std::array::from_fn(|_| random.random::<f64>());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn medians(run: &[Vec<f64>]) -> Vec<f64> {
    run.iter().filter_map(|times| median(times)).collect()
}

fn merged<'a>(blocks: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let mut all: Vec<f64> = blocks.flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    all
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the sample")]
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * as_f64(sorted.len())).ceil().max(1.0) as usize;
    sorted[rank - 1]
}

fn of(values: &[f64], drawn: &[usize], figure: fn(&[f64]) -> Option<f64>) -> Option<f64> {
    figure(&drawn.iter().map(|block| values[*block]).collect::<Vec<_>>())
}

fn bootstrap(blocks: usize, random: &mut ChaCha8Rng, mut figure: impl FnMut(&[usize]) -> Option<f64>) -> Interval {
    let mut figures: Vec<f64> = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let drawn: Vec<usize> = (0..blocks).map(|_| random.random_range(0..blocks)).collect();
        figures.extend(figure(&drawn));
    }
    figures.sort_by(f64::total_cmp);
    Some((quantile(&figures, 0.025), quantile(&figures, 0.975)))
}
