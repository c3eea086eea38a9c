//! The top of the page: the results, a warning if something is wrong, and the conditions.

use stats::figures::{count, things};

use crate::error::Exit;
use crate::judge::finding::Finding;
use crate::report::Report;
use crate::report::glossary::ShownTerm;
use crate::report::html::names::model_label;
use crate::report::html::page::Banner;
use crate::report::table::at_addresses;

/// Returns the title of the page, which says what was compared.
pub(super) fn title(report: &Report) -> String {
    if !report.is_of_lab() {
        return report.title_of_shops();
    }
    let mut names: Vec<&str> = report.results.iter().map(|result| result.strategy.as_str()).collect();
    names.dedup();
    if let Some([old, new]) = report.schedule.pair() {
        return format!("Flash sale: the build {new} against {old}, {}", names.join(", "));
    }
    match names.as_slice() {
        [] => "Flash sale".to_owned(),
        [one] => format!("Flash sale under {one}"),
        [one, other] => format!("Flash sale: {one} against {other}"),
        many => format!("Flash sale: {} strategies compared", many.len()),
    }
}

/// Returns the warning that precedes all figures. `None` if nothing went wrong.
pub(super) fn banner(report: &Report) -> Option<Banner> {
    let code = report.verdict.exit_code;
    let trials = report.trials.len();
    let (title, grave) = if let Some(ended) = &report.ended_early {
        let title = format!("Ended early: {} ({trials} of {} trials)", ended.reason, report.schedule.len());
        let is_broken = report.results.iter().any(|result| result.finding == Finding::Broken);
        (title, is_broken || code != Exit::Interrupted.code())
    } else if code == Exit::Passed.code() {
        return None;
    } else if code == Exit::PromiseBroken.code() {
        ("A promise was broken".to_owned(), true)
    } else if code == Exit::Failed.code() {
        (report.schedule.nouns().failed.to_owned(), true)
    } else if code == Exit::ClientLimited.code() {
        ("The load generator was the bottleneck".to_owned(), false)
    } else {
        ("Something cannot be told".to_owned(), false)
    };
    Some(Banner { title, exit_code: code, grave })
}

/// Lists the conditions of the comparison.
pub(super) fn conditions(report: &Report) -> Vec<ShownTerm> {
    let schedule = &report.schedule;
    let mut terms = vec![ShownTerm::new("Load", model_label(report))];
    if let Some([old, new]) = schedule.pair() {
        terms.push(ShownTerm::new("Builds", format!("{new} against {old}, in pairs of trials in random order")));
    }
    let each = if schedule.goods > 1 { format!(" of each of {} SKUs", schedule.goods) } else { String::new() };
    terms.push(ShownTerm::new("Stock", format!("{}{each}", things(count(u64::from(schedule.stock)), "unit"))));
    if report.is_of_lab() {
        let sessions = schedule.zk_sessions_total.map(|total| format!(", {} ZooKeeper sessions", count(total)));
        let instances = things(schedule.instances, "instance");
        terms.push(ShownTerm::new("Service", format!("{instances}{}", sessions.unwrap_or_default())));
    }
    terms.extend(schedule.shops.iter().map(|shop| ShownTerm::new("Shop", at_addresses(shop))));
    if let Some(time) = &schedule.business_time {
        terms.push(ShownTerm::new("Business time", format!("{time} inside the critical section")));
    }
    let warm_up = if schedule.blocks.iter().any(|block| block.warm_up) { " after a warm-up" } else { "" };
    let order = match schedule.is_logged() {
        true => String::new(),
        false => format!(", in random order (seed {})", schedule.seed),
    };
    terms.extend(schedule.hazards_described().map(|hazards| ShownTerm::new("Hazards", hazards)));
    terms.push(ShownTerm::new("Trials", format!("{} of each{warm_up}{order}", schedule.trials)));
    terms
}
