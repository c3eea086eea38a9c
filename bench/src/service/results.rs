//! The measurements of each repetition, and the report about them.

pub(crate) mod hot_stock;

use std::fmt::Write as _;

use bench::markdown::{ratios, spread, table};
use bench::{Goal, Ratio, Spread};
use stats::figures::{count, maybe, signed};
use stats::median;

use self::hot_stock::HotStockRow;
use crate::generators::Counted;

/// At one number of connections, in one repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The service.
    pub(crate) service: Counted,
    /// The floor that it is compared with.
    pub(crate) floor: Counted,
}

/// The sales that a load generator counted, and the orders in the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    /// Sales that it was told of.
    pub(crate) counted: i64,
    /// Orders that were written meanwhile.
    pub(crate) ordered: i64,
    /// Upper bound of the purchases whose answers it did not wait for.
    pub(crate) left: i64,
}

impl Ledger {
    fn is_right(self) -> bool {
        (self.counted..=self.counted + self.left).contains(&self.ordered)
    }
}

/// Pairs at one number of connections, one per repetition.
#[derive(Clone, Debug)]
pub(crate) struct ServiceRow {
    pub(crate) connections: u16,
    pub(crate) pairs: Vec<Pair>,
}

impl ServiceRow {
    fn median(&self, figure: impl Fn(&Pair) -> f64) -> Option<f64> {
        median(&self.pairs.iter().map(figure).collect::<Vec<_>>())
    }

    fn spread(&self) -> Option<Spread> {
        Spread::of(&self.pairs.iter().map(|pair| pair.service.per_s / pair.floor.per_s).collect::<Vec<_>>())
    }

    /// Returns the ratio of a quantile in every repetition.
    fn quantile_spread(&self, which: usize) -> Option<Spread> {
        let ratio = |pair: &Pair| Some(pair.service.quantiles_ms[which]? / pair.floor.quantiles_ms[which]?);
        Spread::of(&self.pairs.iter().filter_map(ratio).collect::<Vec<_>>())
    }

    fn quantile(&self, which: usize, of: impl Fn(&Pair) -> Counted) -> Option<f64> {
        median(&self.pairs.iter().filter_map(|pair| of(pair).quantiles_ms[which]).collect::<Vec<_>>())
    }

    fn timing_cells(&self) -> [String; 7] {
        let [p50, p99] = [0, 1].map(|which| {
            let [ratio, _] = spread(self.quantile_spread(which));
            [maybe(self.quantile(which, |pair| pair.floor)), maybe(self.quantile(which, |pair| pair.service)), ratio]
        });
        let [[a, b, c], [d, e, f]] = [p50, p99];
        [count(self.connections.into()), a, b, c, d, e, f]
    }

    fn rate_cells(&self) -> [String; 7] {
        let [connections, floor, ours, middle, range] = self.cells();
        let cpu_ms = |of: fn(&Pair) -> Counted| {
            maybe(median(&self.pairs.iter().filter_map(|pair| of(pair).cpu_ms).collect::<Vec<_>>()))
        };
        [connections, floor, ours, middle, range, cpu_ms(|pair| pair.floor), cpu_ms(|pair| pair.service)]
    }

    /// Compares the times of our load generator with those of wrk.
    fn timing_ratios(&self) -> [Ratio; 2] {
        [(0, "p50"), (1, "p99")].map(|(which, name)| Ratio {
            name: format!("loadgen ÷ wrk, {name}, at {} connections each", self.connections),
            goal: Goal::Within(0.9, 1.1),
            spread: self.quantile_spread(which),
        })
    }

    /// Compares the requests of our load generator with those of wrk.
    fn rate_ratio(&self) -> Ratio {
        let name = format!("loadgen ÷ wrk, requests per second, at {} connections", self.connections);
        Ratio { name, goal: Goal::AtLeast(0.3), spread: self.spread() }
    }

    fn cells(&self) -> [String; 5] {
        let [middle, range] = spread(self.spread());
        let floor = maybe(self.median(|pair| pair.floor.per_s));
        [count(self.connections.into()), floor, maybe(self.median(|pair| pair.service.per_s)), middle, range]
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct ServiceResults {
    /// Under which conditions, a sentence each.
    pub(crate) conditions: Vec<String>,
    pub(crate) purchases: Vec<ServiceRow>,
    /// The hot stock.
    pub(crate) crowds: Vec<HotStockRow>,
    pub(crate) looks: Vec<ServiceRow>,
    /// Our load generator as the service, and wrk as the floor. Both run at the same time.
    pub(crate) timings: Vec<ServiceRow>,
    /// The same, one after the other, where an answer costs the service least.
    pub(crate) rates: Vec<ServiceRow>,
    /// Times in which 1500 users of a burst of our load generator started, in milliseconds, one per repetition.
    pub(crate) spreads_ms: Vec<f64>,
    pub(crate) ledgers: Vec<Ledger>,
}

impl ServiceResults {
    /// Returns whether everything that was counted was ordered, and nothing else.
    pub(crate) fn is_right(&self) -> bool {
        self.ledgers.iter().all(|ledger| ledger.is_right())
    }

    /// Writes the report.
    pub(crate) fn render(&self) -> String {
        let mut text = "# The service side by side\n\n".to_owned();
        for condition in &self.conditions {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "- {condition}");
        }
        text.push_str("\n## Purchases per second\n\n");
        let header = ["connections", "pgbench", "service, `pg-conditional`", "ratio", "min..max"];
        table(&mut text, header, &[], self.purchases.iter().map(ServiceRow::cells));
        hot_stock::render(&mut text, &self.crowds);
        text.push_str("\n## Looks at the stock per second\n\n");
        let header = ["connections", "bare handler", "service, `GET /goods/{goods_no}`", "ratio", "min..max"];
        table(&mut text, header, &[], self.looks.iter().map(ServiceRow::cells));
        text.push_str("\n## The times of the load generator\n\n");
        let header = ["connections each", "wrk, p50 ms", "loadgen", "ratio", "wrk, p99 ms", "loadgen", "ratio"];
        table(&mut text, header, &[], self.timings.iter().map(ServiceRow::timing_cells));
        text.push_str("\n## Answers that nothing is left, per second\n\n");
        let header = ["connections", "wrk", "loadgen", "ratio", "min..max", "wrk, processor ms each", "loadgen"];
        table(&mut text, header, &[], self.rates.iter().map(ServiceRow::rate_cells));
        text.push_str("\n## Ratios\n\nEach the median of what it is within every repetition.\n\n");
        let best = [
            best("purchases ÷ pgbench", Goal::AtLeast(0.7), &self.purchases),
            best("looks ÷ bare handler", Goal::AtLeast(0.5), &self.looks),
        ];
        let mut figures: Vec<Ratio> = best.into();
        figures.extend(hot_stock::ratios(&self.crowds));
        figures.extend(self.timings.iter().flat_map(ServiceRow::timing_ratios));
        figures.extend(self.rates.iter().map(ServiceRow::rate_ratio));
        figures.push(Ratio {
            name: "starts of 1500 users, ms from the first to the last".to_owned(),
            goal: Goal::AtMost(100.0),
            spread: Spread::of(&self.spreads_ms),
        });
        ratios(&mut text, &figures);
        let _ = writeln!(text, "\n{}", self.audit());
        text
    }

    fn audit(&self) -> String {
        let ledgers = self.ledgers.len();
        let both = |ledger: &Ledger| format!("{} and {}", signed(ledger.counted), signed(ledger.ordered));
        let wrong: Vec<_> = self.ledgers.iter().filter(|ledger| !ledger.is_right()).map(both).collect();
        if wrong.is_empty() {
            let total = |of: fn(&Ledger) -> i64| signed(self.ledgers.iter().map(of).sum());
            format!(
                "In each of {ledgers} measurements of purchases what was counted was ordered: {} counted, {} ordered. The \
                 difference is the purchases that wrk left before their answers.",
                total(|ledger| ledger.counted),
                total(|ledger| ledger.ordered)
            )
        } else {
            format!(
                "**In {} of {ledgers} measurements other numbers were counted and ordered: {}.**",
                wrong.len(),
                wrong.join(", ")
            )
        }
    }
}

/// Returns the ratio where the service does most.
fn best(name: &str, goal: Goal, rows: &[ServiceRow]) -> Ratio {
    let of_service = |row: &ServiceRow| row.median(|pair| pair.service.per_s).unwrap_or_default();
    let best = rows.iter().max_by(|one, other| of_service(one).total_cmp(&of_service(other)));
    let at =
        best.map_or(String::new(), |row| format!(", at {} connections, where the service does most", row.connections));
    Ratio { name: format!("{name}{at}"), goal, spread: best.and_then(ServiceRow::spread) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(connections: u16, pairs: &[(f64, f64)]) -> ServiceRow {
        let counted = |per_s| Counted {
            per_s,
            total: 1,
            quantiles_ms: [Some(1000.0 / per_s), Some(3000.0 / per_s)],
            cpu_ms: Some(per_s),
        };
        let pairs = pairs.iter().map(|&(service, floor)| Pair { service: counted(service), floor: counted(floor) });
        ServiceRow { connections, pairs: pairs.collect() }
    }

    fn results(ledgers: &[(i64, i64, i64)]) -> ServiceResults {
        ServiceResults {
            conditions: vec!["2 cores".to_owned()],
            purchases: vec![
                row(1, &[(900.0, 1000.0), (900.0, 1000.0), (900.0, 1000.0)]),
                row(2, &[(1500.0, 2000.0), (1400.0, 1000.0), (1600.0, 2000.0)]),
            ],
            crowds: Vec::new(),
            looks: vec![row(64, &[(40.0, 100.0)])],
            timings: vec![row(16, &[(50.0, 100.0)])],
            rates: vec![row(4, &[(60.0, 100.0)])],
            spreads_ms: vec![90.0],
            ledgers: ledgers.iter().map(|&(counted, ordered, left)| Ledger { counted, ordered, left }).collect(),
        }
    }

    /// Returns a line without the spaces that align it.
    fn squeezed(line: &str) -> String {
        line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ratios_are_those_where_the_service_does_most() {
        let text = results(&[(10, 11, 1), (5, 5, 0)]).render();
        for line in [
            "- 2 cores",
            "| 1 | 1000 | 900 | 0.900 | 0.900..0.900 |",
            "| 2 | 2000 | 1500 | 0.800 | 0.750..1.40 |",
            "| purchases ÷ pgbench, at 2 connections, where the service does most | ≥ 0.7 | 0.800 | 0.750..1.40 | yes |",
            "| looks ÷ bare handler, at 64 connections, where the service does most | ≥ 0.5 | 0.400 | 0.400..0.400 | no |",
            "| 16 | 10.0 | 20.0 | 2.00 | 30.0 | 60.0 | 2.00 |",
            "| 4 | 100 | 60.0 | 0.600 | 0.600..0.600 | 100 | 60.0 |",
            "| loadgen ÷ wrk, requests per second, at 4 connections | ≥ 0.3 | 0.600 | 0.600..0.600 | yes |",
            "| loadgen ÷ wrk, p99, at 16 connections each | 0.9..1.1 | 2.00 | 2.00..2.00 | no |",
            "| starts of 1500 users, ms from the first to the last | ≤ 100 | 90.0 | 90.0..90.0 | yes |",
        ] {
            assert!(text.lines().any(|found| squeezed(found) == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("In each of 2 measurements of purchases"), "{text}");
    }

    #[test]
    fn what_was_counted_must_have_been_ordered() {
        assert!(results(&[(10, 10, 0), (10, 12, 2)]).is_right());
        for wrong in [(10, 9, 2), (10, 13, 2), (10, 11, 0)] {
            let results = results(&[(5, 5, 0), wrong]);
            assert!(!results.is_right(), "{wrong:?}");
            let expected =
                format!("In 1 of 2 measurements other numbers were counted and ordered: {} and {}.", wrong.0, wrong.1);
            assert!(results.render().contains(&expected), "{wrong:?}");
        }
    }
}
