//! The hot stock: what a crowd buys of one SKU by each strategy, and the two floors of `pg-merge`.

use std::collections::BTreeMap;

use bench::markdown::{spread, table};
use bench::{Goal, Ratio, Spread};
use stats::figures::{ABSENT, count, maybe};
use stats::median;

use crate::generators::Counted;

/// From this number of connections on, batches have a goal against sales one by one.
const LARGE: u16 = 300;

/// The least share of each floor that `pg-merge` should reach.
const SHARE_OF_FLOOR: f64 = 0.6;

/// Goal for a large crowd: sales with batches divided by sales without.
const TIMES_ONE_BY_ONE: f64 = 10.0;

/// A side that sells, or answers, in a round.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Seller {
    /// The service with this strategy.
    Strategy(&'static str),
    /// pgbench with batches of the size that `pg-merge` has reached.
    Batches,
    /// The service without a write: it answers that nothing is left.
    Path,
}

pub(crate) const MERGE: Seller = Seller::Strategy("pg-merge");
const CONDITIONAL: Seller = Seller::Strategy("pg-conditional");
const FUNCTION: Seller = Seller::Strategy("pg-function");
const ZK_MERGE: Seller = Seller::Strategy("zk-merge");
const OWNER: Seller = Seller::Strategy("zk-owner");
const COHORT: Seller = Seller::Strategy("zk-cohort");

impl Seller {
    /// All of them, in the order of the report.
    pub(crate) const ALL: [Self; 8] =
        [MERGE, Self::Batches, Self::Path, CONDITIONAL, FUNCTION, OWNER, ZK_MERGE, COHORT];

    /// Returns the name in the report.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Strategy(strategy) => format!("`{strategy}`"),
            Self::Batches => "pgbench, the same batches".to_owned(),
            Self::Path => "HTTP path alone".to_owned(),
        }
    }
}

/// The sales of one side in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sold {
    pub(crate) counted: Counted,
    /// Sales in one commit, on average. Absent if nothing was committed.
    pub(crate) per_commit: Option<f64>,
}

/// The sales of each side, measured one after the other.
pub(crate) type Round = BTreeMap<Seller, Sold>;

/// One number of connections.
#[derive(Clone, Debug)]
pub(crate) struct HotStockRow {
    pub(crate) connections: u16,
    /// The batch size that `pg-merge` reached last.
    pub(crate) batch: u16,
    /// One per repetition.
    pub(crate) rounds: Vec<Round>,
}

impl HotStockRow {
    fn median(&self, side: Seller, figure: impl Fn(&Sold) -> Option<f64>) -> Option<f64> {
        median(&self.rounds.iter().filter_map(|round| figure(round.get(&side)?)).collect::<Vec<_>>())
    }

    fn per_s(&self, side: Seller) -> Option<f64> {
        self.median(side, |sold| Some(sold.counted.per_s))
    }

    /// Returns the ratio of two sides in each round.
    fn ratio(&self, of: Seller, to: Seller) -> Option<Spread> {
        let ratio = |round: &Round| Some(round.get(&of)?.counted.per_s / round.get(&to)?.counted.per_s);
        Spread::of(&self.rounds.iter().filter_map(ratio).collect::<Vec<_>>())
    }

    fn cells(&self, side: Seller) -> [String; 9] {
        let [p50, p99] = [0, 1].map(|which| maybe(self.median(side, |sold| sold.counted.quantiles_ms[which])));
        let per_commit = self.median(side, |sold| sold.per_commit);
        let [ratio, range] = match side {
            MERGE => [ABSENT, ABSENT].map(str::to_owned),
            side => spread(self.ratio(MERGE, side)),
        };
        let commits = maybe(per_commit.map(|sales| 1.0 / sales));
        let connections = count(self.connections.into());
        [connections, side.name(), maybe(self.per_s(side)), p50, p99, maybe(per_commit), commits, ratio, range]
    }

    fn goal(&self, of: Seller, to: Seller, least: f64) -> Ratio {
        let name = format!("{} ÷ {}, at {} connections", of.name(), to.name(), count(self.connections.into()));
        Ratio { name, goal: Goal::AtLeast(least), spread: self.ratio(of, to) }
    }

    /// Returns the goal of a strategy that sells in batches against one that does not. If the HTTP path allows less,
    /// the goal is a share of that path.
    fn advantage(&self, of: Seller, beside: Seller) -> Ratio {
        let demanded = [(beside, TIMES_ONE_BY_ONE), (Seller::Path, SHARE_OF_FLOOR)];
        let [one_by_one, path] =
            demanded.map(|(side, times)| self.per_s(side).map_or(f64::INFINITY, |per_s| times * per_s));
        let (side, times) = demanded[usize::from(path < one_by_one)];
        self.goal(of, side, times)
    }

    /// Compares the sales of `pg-merge` with both floors in series, as if no sale were answered while the next batch is
    /// written.
    fn beside_both_floors(&self) -> Ratio {
        let ratio = |round: &Round| {
            let [merge, batches, path] =
                [MERGE, Seller::Batches, Seller::Path].map(|side| Some(round.get(&side)?.counted.per_s));
            Some(merge? * (1.0 / batches? + 1.0 / path?))
        };
        let name = format!("`pg-merge` ÷ both floors in series, at {} connections", count(self.connections.into()));
        let spread = Spread::of(&self.rounds.iter().filter_map(ratio).collect::<Vec<_>>());
        Ratio { name, goal: Goal::AtLeast(0.8), spread }
    }
}

/// Appends the table.
pub(crate) fn render(text: &mut String, crowds: &[HotStockRow]) {
    text.push_str("\n## Hot stock, sales per second\n\n");
    let header = [
        "connections",
        "what sells",
        "sales/s",
        "p50 ms",
        "p99 ms",
        "sales per commit",
        "commits per sale",
        "`pg-merge` ÷ this",
        "min..max",
    ];
    let rows = crowds.iter().flat_map(|crowd| Seller::ALL.map(|side| crowd.cells(side)));
    table(text, header, &[1], rows);
    text.push_str(
        "\nThe HTTP path alone is the service that answers 409 because the SKU is sold out (`--remember-sold-out`); its \
         column has answers per second. Each answer passes the same connection, layers, limits, task and admission as a sale. One \
         read of the stock answers all who wait. Left out are the queue of the batch, the row lock, all writes and the \
         commit.\n",
    );
}

/// Returns the figures with goals.
pub(crate) fn ratios(crowds: &[HotStockRow]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (position, crowd) in crowds.iter().enumerate() {
        if crowd.connections >= LARGE {
            ratios.push(crowd.advantage(MERGE, CONDITIONAL));
            ratios.push(crowd.advantage(OWNER, CONDITIONAL));
            ratios.push(crowd.advantage(ZK_MERGE, COHORT));
        }
        ratios.push(crowd.goal(MERGE, Seller::Batches, SHARE_OF_FLOOR));
        ratios.push(crowd.beside_both_floors());
        ratios.push(crowd.goal(FUNCTION, CONDITIONAL, 1.2));
        if position > 0 {
            ratios.push(steadiness(&crowds[..position], crowd));
        }
    }
    ratios
}

/// Compares the sales of `pg-merge` to a crowd with the most that it sells to a smaller one, within each repetition.
fn steadiness(smaller: &[HotStockRow], crowd: &HotStockRow) -> Ratio {
    let per_s = |crowd: &HotStockRow, repetition: usize| Some(crowd.rounds.get(repetition)?.get(&MERGE)?.counted.per_s);
    let ratio = |repetition| {
        let most = smaller.iter().filter_map(|crowd| per_s(crowd, repetition)).reduce(f64::max)?;
        Some(per_s(crowd, repetition)? / most)
    };
    Ratio {
        name: format!("`pg-merge` at {} connections ÷ the most at fewer", count(crowd.connections.into())),
        goal: Goal::AtLeast(0.9),
        spread: Spread::of(&(0..crowd.rounds.len()).filter_map(ratio).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use bench::markdown;

    use super::*;

    /// Makes a crowd whose sides sell this much per second in each round, in the order of [`Seller::ALL`].
    fn crowd(connections: u16, rounds: &[[f64; 8]]) -> HotStockRow {
        let sold = |side, per_s| {
            let quantiles_ms = [Some(1000.0 / per_s), None];
            let per_commit = match side {
                MERGE | OWNER | ZK_MERGE | Seller::Batches => Some(20.0),
                Seller::Path => None,
                Seller::Strategy(_) => Some(1.0),
            };
            Sold { counted: Counted { per_s, total: 1, quantiles_ms, cpu_ms: None }, per_commit }
        };
        let round =
            |per_s: &[f64; 8]| Seller::ALL.into_iter().zip(*per_s).map(|(side, per_s)| (side, sold(side, per_s)));
        HotStockRow { connections, batch: 20, rounds: rounds.iter().map(|per_s| round(per_s).collect()).collect() }
    }

    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    fn expect(text: &str, lines: &[&str]) {
        let found = squeezed(text);
        for line in lines {
            assert!(found.iter().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn each_side_stands_beside_pg_merge_with_its_commits() {
        let mut text = String::new();
        render(&mut text, &[crowd(30, &[[5000.0, 8000.0, 2500.0, 1000.0, 1250.0, 6000.0, 4000.0, 500.0]])]);
        expect(
            &text,
            &[
                "| 30 | `pg-merge` | 5000 | 0.200 | – | 20.0 | 0.0500 | – | – |",
                "| 30 | pgbench, the same batches | 8000 | 0.125 | – | 20.0 | 0.0500 | 0.625 | 0.625..0.625 |",
                "| 30 | HTTP path alone | 2500 | 0.400 | – | – | – | 2.00 | 2.00..2.00 |",
                "| 30 | `pg-function` | 1250 | 0.800 | – | 1.00 | 1.00 | 4.00 | 4.00..4.00 |",
                "| 30 | `zk-owner` | 6000 | 0.167 | – | 20.0 | 0.0500 | 0.833 | 0.833..0.833 |",
            ],
        );
    }

    #[test]
    fn the_http_path_is_the_goal_only_where_it_allows_less() {
        let small = crowd(30, &[[5000.0, 8000.0, 20_000.0, 1000.0, 1250.0, 6000.0, 4000.0, 500.0]; 2]);
        // Ten times 1000 are less than 0.6 of 20000.
        let large = crowd(
            300,
            &[
                [9000.0, 10_000.0, 20_000.0, 1000.0, 1000.0, 6000.0, 4000.0, 500.0],
                [11_000.0, 10_000.0, 20_000.0, 1000.0, 1000.0, 6000.0, 4000.0, 500.0],
            ],
        );
        // Ten times 1000 are more than 0.6 of 15000.
        let larger = crowd(1500, &[[9900.0, 10_000.0, 15_000.0, 1000.0, 1300.0, 6000.0, 4000.0, 500.0]; 2]);
        let mut text = String::new();
        markdown::ratios(&mut text, &ratios(&[small, large, larger]));
        expect(
            &text,
            &[
                "| `pg-merge` ÷ pgbench, the same batches, at 30 connections | ≥ 0.6 | 0.625 | 0.625..0.625 | yes |",
                "| `pg-merge` ÷ both floors in series, at 30 connections | ≥ 0.8 | 0.875 | 0.875..0.875 | yes |",
                "| `pg-merge` ÷ `pg-conditional`, at 300 connections | ≥ 10 | 10.0 | 9.00..11.0 | yes |",
                "| `zk-owner` ÷ `pg-conditional`, at 300 connections | ≥ 10 | 6.00 | 6.00..6.00 | no |",
                "| `zk-merge` ÷ `zk-cohort`, at 300 connections | ≥ 10 | 8.00 | 8.00..8.00 | no |",
                "| `pg-function` ÷ `pg-conditional`, at 300 connections | ≥ 1.2 | 1.00 | 1.00..1.00 | no |",
                "| `pg-merge` at 300 connections ÷ the most at fewer | ≥ 0.9 | 2.00 | 1.80..2.20 | yes |",
                "| `pg-merge` ÷ HTTP path alone, at 1500 connections | ≥ 0.6 | 0.660 | 0.660..0.660 | yes |",
                "| `pg-merge` at 1500 connections ÷ the most at fewer | ≥ 0.9 | 1.00 | 0.900..1.10 | yes |",
            ],
        );
        assert!(!text.contains("÷ `pg-conditional`, at 30 connections | ≥ 10"), "{text}");
    }

    #[test]
    fn a_goal_without_a_measurement_is_neither_met_nor_missed() {
        let mut text = String::new();
        markdown::ratios(&mut text, &ratios(&[crowd(300, &[])]));
        expect(&text, &["| `pg-merge` ÷ `pg-conditional`, at 300 connections | ≥ 10 | – | – | – |"]);
    }
}
