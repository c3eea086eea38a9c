//! The handlers: extract, call, status. One file a resource.

pub mod admin;
pub mod contract;
pub mod goods;
pub mod goods_stock;
pub mod health;
pub mod metrics;
pub mod orders;
pub mod strategies;
pub mod whole;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::config::Config;
use crate::error::{Failure, Progress};
use crate::problem::{Problem, kind};
use crate::stock::{GoodsNo, InvalidGoodsNo, Outcome};
use crate::strategy::registry::Entry;
use crate::telemetry::warn_of_database_outage;

/// The `{goods_no}` of a path.
#[derive(Debug, Clone, Copy)]
pub struct GoodsNoInPath(pub GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for GoodsNoInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| InvalidGoodsNo)?;
        Ok(Self(text.parse()?))
    }
}

impl IntoParams for GoodsNoInPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![number_in_path("goods_no", "The number of the SKU, in digits only.")]
    }
}

/// A parameter of a path that is a positive number.
fn number_in_path(name: &str, description: &str) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(i64::MAX));
    Parameter::builder()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

/// The query of what is done by a strategy. An unknown parameter is refused: a misspelt `strategy` must not buy by
/// another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenStrategy {
    strategy: Option<String>,
}

impl ChosenStrategy {
    fn of(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        query.map(|Query(query)| query).map_err(|rejection| Problem::invalid_input(rejection.body_text()))
    }

    /// The strategy that was named, if it is offered, or the default.
    fn entry_or(&self, default: &'static Entry, config: &Config) -> Result<&'static Entry, Problem> {
        // Load plans that leave their variable for the strategy empty mean the default.
        match self.strategy.as_deref().filter(|name| !name.is_empty()) {
            None => Ok(default),
            Some(name) => config.offered().find(|entry| entry.name == name).ok_or_else(|| {
                let offered: Vec<_> = config.offered().map(|entry| entry.name).collect();
                let detail = format!("no strategy {name:?} is offered; choose one of {}", offered.join(", "));
                Problem::new(&kind::UNKNOWN_STRATEGY, detail)
            }),
        }
    }
}

impl IntoParams for ChosenStrategy {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description =
            "How the stock is guarded; see `GET /strategies`. Left out or empty, it is the default of this instance.";
        let strategy = Parameter::builder()
            .name("strategy")
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            // Which ones are offered is added to the whole document.
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
        vec![strategy.build()]
    }
}

/// The refusal that an outcome means which is no sale.
fn answer_problem(outcome: Outcome) -> Problem {
    match outcome {
        Outcome::SoldOut(goods_no) => Problem::new(&kind::SOLD_OUT, format!("not enough is left of SKU {goods_no}")),
        Outcome::UnknownGoods(goods_no) => unknown_goods(goods_no),
        Outcome::SaleRestarted => Problem::new(&kind::SALE_RESTARTED, kind::SALE_RESTARTED.meaning),
        Outcome::KeyReused => {
            let detail = "something else was asked for under this idempotency key before; choose another key";
            Problem::new(&kind::KEY_REUSED, detail)
        }
        Outcome::Sold(_) | Outcome::Repeated => {
            unreachable!("BUG: a sale is no problem, and a repetition was resolved")
        }
    }
}

/// The answer to a database error outside of a deduction. Logged here, as nothing else sees it.
fn database_problem(error: sqlx::Error) -> Problem {
    let failure = Failure::of_database(error, Progress::Open);
    match failure {
        Failure::DatabaseUnavailable(_) => warn_of_database_outage(&failure),
        _ => tracing::error!(%failure, "a request failed"),
    }
    failure.into()
}

fn unknown_goods(goods_no: GoodsNo) -> Problem {
    Problem::new(&kind::UNKNOWN_GOODS, format!("there is no SKU {goods_no}"))
}
