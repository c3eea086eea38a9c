//! The comparison as one page that needs nothing else: no network, no other file.
//!
//! All text and all tables are written here, so that the page can be read without its script. The charts are drawn by
//! the script in the page, from the few figures of the report that they need ([`data`]), with the libraries in `vendor`.

mod builds;
mod cost;
mod data;
mod glance;
mod headline;
mod herd;
mod latency;
mod names;
mod page;
mod results;
mod sale;
mod setup;
mod simulation;
mod sold;

#[cfg(test)]
mod tests;

use askama::Template;

use self::glance::Glance;
use self::names::levels;
use self::page::{Page, PagePart};
use crate::error::Error;
use crate::judge::metrics::Metric;
use crate::report::Report;

const STYLE: &str = concat!(include_str!("html/style/page.css"), include_str!("html/style/figures.css"));

/// The libraries, each after those that it needs.
const LIBRARIES: [&str; 2] = [include_str!("html/vendor/d3.min.js"), include_str!("html/vendor/plot.umd.min.js")];

const LICENCES: [(&str, &str); 2] =
    [("D3", include_str!("html/vendor/d3.LICENSE")), ("Observable Plot", include_str!("html/vendor/plot.LICENSE"))];

/// All files form one script: each may use the names of earlier ones.
const SCRIPT: &str = concat!(
    include_str!("html/script/base.js"),
    include_str!("html/script/tables.js"),
    include_str!("html/script/tips.js"),
    include_str!("html/script/frame.js"),
    include_str!("html/script/rows.js"),
    include_str!("html/script/sale.js"),
    include_str!("html/script/curves.js"),
    include_str!("html/script/simulation.js"),
    include_str!("html/script/main.js"),
);

/// Renders the whole page.
pub(crate) fn render(report: &Report, metrics: &[&Metric]) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Generator(format!("the page cannot be made: {error}"));
    let metrics = &report.shown(metrics)[..];
    let levels = Some(levels(report)).filter(|levels| levels.len() > 1).unwrap_or_default();
    let page = Page {
        title: headline::title(report),
        kicker: if report.is_of_lab() { "seckill lab" } else { "loadgen check" },
        nouns: report.schedule.nouns(),
        sentence: report.verdict.sentence.clone(),
        glance: Glance::of(report),
        details: report.verdict.details.clone(),
        banner: headline::banner(report),
        reasons: report.verdict.reasons.clone(),
        conditions: headline::conditions(report),
        caveats: report.caveats.clone(),
        parts: parts(report, metrics),
        levels,
        ended: report.generated_at.replace('T', " ").replace('Z', " UTC"),
        generated_at: report.generated_at.clone(),
        loadgen_version: report.environment.loadgen_version.clone(),
        schema: report.schema.clone(),
        licences: LICENCES,
        style: STYLE,
        data: data::embed(report).map_err(|error| failed(&error))?,
        libraries: LIBRARIES,
        script: SCRIPT,
    };
    page.render().map_err(|error| failed(&error))
}

/// Returns the parts of the page in their order. A part without data says so.
fn parts(report: &Report, metrics: &[&Metric]) -> Vec<PagePart> {
    if !report.is_of_lab() {
        return parts_of_shops(report, metrics);
    }
    let builds = report.builds.as_ref().map(|diff| builds::part(diff, metrics));
    let others = vec![
        sale::part(report),
        sold::part(report, metrics),
        herd::part(report, metrics),
        latency::part(report, metrics),
        latency::handovers(report, metrics),
        herd::scaling(report),
        cost::database(report, metrics),
        cost::processors(report, metrics),
        simulation::part(report),
        setup::thresholds(report),
        setup::guide(report, metrics),
        setup::environment(report),
    ];
    builds.into_iter().chain(others).collect()
}

/// Returns the parts of a page about shops that files describe. What such shops cannot show has no part.
fn parts_of_shops(report: &Report, metrics: &[&Metric]) -> Vec<PagePart> {
    let several = (levels(report).len() > 1).then(|| herd::scaling(report));
    let mut parts = vec![
        sale::part(report),
        sold::part(report, metrics),
        latency::part(report, metrics),
        cost::generator_part(report, metrics),
    ];
    parts.extend(several);
    parts.extend(sold::reproductions(report));
    parts.extend([setup::thresholds(report), setup::guide(report, metrics), setup::environment(report)]);
    parts
}
