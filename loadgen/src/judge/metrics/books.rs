//! The figures of the audit: what was really sold, and whether the locks excluded.

use stats::as_f64;
use stats::figures as format;
use stats::rate;

use super::metric::{
    Better, Compared, FigureSource, K6, Kind, Metric, PageTable, ROW, TableWidth, exact, of_books, rows,
};
use crate::trial::schedule::Schedule;

rows! {
    BAD_TRIALS {
        key: "bad_trials", title: "Bad trials", unit: "of all", kind: Kind::Count, better: Better::Zero,
        definition: "Trials that sold a unit too many or too few, twice or out of sequence, misplaced one, or lost an update. Also \
                     those in which a buyer got more than one may have, or was told what the database refutes. The warm-up counts. \
                     Next to it is the exact one-sided 95 % upper bound of their rate, if it is below one half.",
        of_shops: Some(
            "Trials that sold a unit too many or too few, lost an update, gave a buyer more than one may have, or told a buyer \
             something that the books deny; warm-up included. Next to it is the exact one-sided 95 % upper bound of their \
             rate, if it is below one half: a few good trials prove little.",
        ),
        source: FigureSource::Result(|result| Some(exact(f64::from(result.bad_trials)))),
        beside: |result| {
            let bound = Some(result.bad_trial_rate_upper_95).filter(|bound| rate::is_telling(*bound));
            let bound = bound.map_or_else(String::new, |bound| format!(" (≤ {})", format::percent(bound)));
            Some(format!("of {}{bound}", result.trials))
        },
        column: TableWidth::Wide,
    }
    OVERSOLD {
        key: "oversold", title: "Over\u{ad}sold", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units sold beyond the stock, in the worst trial; warm-up included.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.oversold))),
        beside: |result| OVERSELL_RATE.value(result).filter(|rate| *rate > 0.0).map(|rate| format!("({})", format::percent(rate))),
        column: TableWidth::Narrow, compared: Compared::Exact, k6: Some(K6::SoldAtMost),
    }
    OVERSELL_RATE {
        key: "oversell_rate", title: "Oversell rate", unit: "of the stock, worst", kind: Kind::Share, better: Better::Zero,
        definition: "Units sold beyond the stock, divided by the stock, in the worst trial.",
        source: FigureSource::Result(|result| Some(exact(OVERSOLD.value(result)? / as_f64(result.stock)))),
        table: PageTable::Rules,
    }
    UNDERSOLD {
        key: "undersold", title: "Under\u{ad}sold", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units that buyers wanted and did not get although one of them was told \"sold out\", or although enough \
            buyers were told \"sold\" to take them all; worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.undersold))),
        column: TableWidth::Narrow, compared: Compared::Exact, k6: Some(K6::SoldAtLeast),
        is_shown: Schedule::has_no_hazards,
    }
    LEFT {
        key: "left", title: "Left", unit: "units, worst", kind: Kind::Count, better: Better::Lower,
        definition: "Units that buyers wanted and did not get, whatever they were told, in the worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.undersold + trial.audit.unsold_undecided))),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    TOLD_WITHOUT_ORDER {
        key: "told_without_order", title: "Told, no order", unit: "buyers, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Buyers that were told \"sold\", and whose order the database does not have, in the worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.confirmations_unfounded))),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    LEFT_OPEN {
        key: "left_open", title: "Left open", unit: "buyers, worst", kind: Kind::Count, better: Better::Lower,
        definition: "Buyers whose answer left open whether they had bought: an `outcome-unknown`, an error or none in time. In the \
                     worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.answers.failed()))),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    ORDERS_UNTOLD {
        key: "orders_untold", title: "Told nobody", unit: "orders, worst", kind: Kind::Count, better: Better::Lower,
        definition: "Orders in the database that no buyer was told of, in the worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.indeterminate + trial.audit.orders_unexplained))),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    BOOKS_AGREE {
        key: "books_agree", title: "Books agree after", unit: "ms, worst", kind: Kind::Time, better: Better::Lower,
        definition: "From the strike of the hazard until the database had every order that a buyer had been told of, in the worst \
                     trial. Not reached if an order that a buyer was told of never came. Absent where buyers are answered at the \
                     commit.",
        source: FigureSource::Worst(|trial| trial.strike?.books_agree_ms),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    STALL {
        key: "stall", title: "Stall", unit: "ms, worst", kind: Kind::Time, better: Better::Lower,
        definition: "Longest time from the strike of the hazard on in which no buyer was told of a sale, in the worst trial. It ends \
                     with the stock, or with the first buyer who is told \"sold out\" after the last sale, or with the last answer.",
        source: FigureSource::Worst(|trial| trial.strike.map(|strike| strike.stall_ms)),
        column: TableWidth::Narrow, is_shown: Schedule::has_hazards, lab_only: true,
    }
    LOST_UPDATES {
        key: "lost_updates", title: "Lost updates", unit: "worst", kind: Kind::Count, better: Better::Zero,
        definition: "Initial stock − final stock − units sold, in the worst trial. Negative: the deduction of an order was \
            overwritten. Positive: stock vanished without an order.",
        source: FigureSource::Worst(|trial| of_books(trial, |read| read.stock, as_f64(trial.audit.lost_updates))),
        compared: Compared::Exact,
    }
    DOUBLE_SALES {
        key: "double_sales", title: "Sold twice", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Orders for a unit that an earlier order had already taken, in the worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.double_sales))),
        compared: Compared::Exact,
        lab_only: true,
    }
    OUT_OF_SEQUENCE {
        key: "out_of_sequence", title: "Out of sequence", unit: "orders, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Orders that do not continue the sequence of the sale, in the worst trial. An order begins with the \
                     units that the previous order left. The orders of a batch follow each other, and their numbers \
                     grow. Absent if the orders do not say how many units they left.",
        source: FigureSource::Worst(|trial| trial.audit.out_of_sequence.map(as_f64)),
        lab_only: true,
    }
    MISPLACED {
        key: "misplaced", title: "Misplaced", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units whose rows disagree with the orders or the ledger, in the worst trial. Absent without such rows.",
        source: FigureSource::Worst(|trial| trial.audit.misplaced.map(as_f64)), table: PageTable::Database,
    }
    UNBALANCED {
        key: "unbalanced", title: "Ledger", unit: "trials not balanced", kind: Kind::Count, better: Better::Zero,
        definition: "Trials whose orders differ from what buyers were told, apart from indeterminate orders.",
        source: FigureSource::Sum(|trial| of_books(trial, |read| read.orders, f64::from(u8::from(!trial.ledger_balanced)))),
    }
    OVER_LIMIT {
        key: "over_limit", title: "Over the limit", unit: "buyers, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Buyers that got more units than one buyer may have, in the worst trial. Zero where the shop has no \
                     such limit.",
        column: TableWidth::Wide, is_shown: Schedule::limits_buyers,
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.over_limit))),
    }
    OVERLAPS {
        key: "overlaps", title: "Overlaps", unit: "all trials", kind: Kind::Count, better: Better::Zero,
        definition: "Critical sections that were entered while the lock had no free permit, by the instances' own \
                     clocks. Absent where sections may overlap, or without a history.",
        source: FigureSource::Sum(|trial| trial.history.as_ref()?.overlaps.map(as_f64)),
        needs: |nature| nature.permits.is_some() && !nature.oversells,
        column: TableWidth::Wide,
        lab_only: true,
    }
    TOKEN_REGRESSIONS {
        key: "token_regressions", title: "Token regres\u{ad}sions", unit: "all trials", kind: Kind::Count, better: Better::Zero,
        definition: "Holds whose fencing token is not above the tokens of all earlier holds.",
        source: FigureSource::Sum(|trial| trial.history.as_ref()?.token_regressions.map(as_f64)),
        needs: |nature| nature.has_zookeeper_lock() && nature.excludes(),
        lab_only: true,
    }
    TOKENS_OUT_OF_ORDER {
        key: "tokens_out_of_order", title: "Tokens out of order", unit: "orders, all trials", kind: Kind::Count,
        better: Better::Zero,
        definition: "Orders with a lower fencing token than an earlier order. Absent without tokens, and for a lock \
                     with several permits.",
        source: FigureSource::Sum(|trial| trial.audit.tokens_out_of_order.map(as_f64)),
        needs: |nature| nature.has_zookeeper_lock() && (nature.excludes() || nature.permits.is_none()),
        lab_only: true,
    }
    OVERTAKEN_IN_BATCH {
        key: "overtaken_in_batch", title: "Over\u{ad}taken in a batch", unit: "orders, all trials", kind: Kind::Count,
        better: Better::Zero,
        definition: "Orders that a batch sold after the order of a buyer that arrived later at the same instance. Absent without \
            batches, or if the history does not tell when their buyers arrived.",
        source: FigureSource::Sum(|trial| trial.audit.overtaken_in_batch.map(as_f64)),
        needs: |nature| nature.permits.is_none() && !nature.oversells,
        table: PageTable::Handover,
        lab_only: true,
    }
    INDETERMINATE {
        key: "indeterminate", title: "Indeter\u{ad}minate", unit: "orders", kind: Kind::Count,
        definition: "Orders in the database whose buyers saw an error or no answer. They count against no strategy.",
        of_shops: Some("Orders in the books whose buyers saw an error or no answer. They count against no shop."),
        source: FigureSource::Sum(|trial| of_books(trial, |read| read.orders, as_f64(trial.audit.indeterminate))),
    }
}
