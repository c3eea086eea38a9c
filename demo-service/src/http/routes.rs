//! The handlers. Each extracts the input, calls the application, and sets the status. One file per resource.

pub mod admin;
pub mod answers;
pub mod contract;
pub mod goods;
pub mod goods_stock;
pub mod health;
pub mod metrics;
pub mod object;
pub mod orders;
pub mod reservations;
pub mod strategies;
pub mod tickets;
pub mod views;
pub mod whole;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::failure::{self, Failure};
use crate::sale::{BuyerId, GoodsNo, InvalidBuyer, InvalidGoodsNo};
use crate::strategy::admission::Offer;
use crate::strategy::entry::Entry;

/// The `{goods_no}` of a path.
#[derive(Debug, Clone, Copy)]
pub struct GoodsNoInPath(pub GoodsNo);

impl<S: Send + Sync> FromRequestParts<S> for GoodsNoInPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| InvalidGoodsNo)?;
        Ok(Self(text.parse()?))
    }
}

impl IntoParams for GoodsNoInPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![number_in_path("goods_no", "The number of the SKU, in digits only.")]
    }
}

/// Describes a parameter of a path that is a positive number.
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

/// The request header that says who buys.
const BUYER_ID: &str = "buyer-id";

/// The `Buyer-Id` of a request, if it has one.
#[derive(Debug)]
pub struct BuyerHeader(pub Option<BuyerId>);

impl BuyerHeader {
    /// Returns who buys, by the header or by the member `buyer` of the body.
    ///
    /// # Errors
    /// 422 for a malformed member, and for one that contradicts the header.
    fn or_member(self, member: Option<String>) -> Result<Option<BuyerId>, Failure> {
        let Some(member) = member else { return Ok(self.0) };
        let member: BuyerId = member.parse().map_err(|invalid: InvalidBuyer| Failure::from(invalid))?;
        match self.0 {
            Some(header) if header != member => Err(Failure::new(
                &failure::BUYER_UNCLEAR,
                "the header Buyer-Id and the member buyer name different buyers; send one of them",
            )),
            _ => Ok(Some(member)),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BuyerHeader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let mut values = parts.headers.get_all(BUYER_ID).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        if values.next().is_some() {
            return Err(Failure::invalid_input("there is more than one Buyer-Id"));
        }
        let buyer =
            value.to_str().unwrap_or_default().parse().map_err(|invalid: InvalidBuyer| Failure::from(invalid))?;
        Ok(Self(Some(buyer)))
    }
}

impl IntoParams for BuyerHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The buyer. A sale with a limit per buyer needs it. The service believes it: it stands for the user of a \
                           session that a real shop has.";
        let buyer = Parameter::builder()
            .name("Buyer-Id")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some(BuyerId::PATTERN))));
        vec![buyer.build()]
    }
}

/// The query of a request that may name a strategy. An unknown parameter is refused: a purchase with a misspelt
/// `strategy` must not be made by another strategy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenStrategy {
    strategy: Option<String>,
}

impl ChosenStrategy {
    /// Returns the strategy that a query names, if it is offered. Some load plans leave their variable for the
    /// strategy empty. They name none.
    fn of(query: Result<Query<Self>, QueryRejection>, offer: &Offer) -> Result<Option<&'static Entry>, Failure> {
        let Query(Self { strategy }) = query?;
        strategy.filter(|name| !name.is_empty()).map(|name| offer.find(&name)).transpose()
    }
}

impl IntoParams for ChosenStrategy {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "How the purchase is decided; see `GET /strategies`. It must be of the family that guards the sale. Left out or empty, it is the sale's own.";
        let strategy = Parameter::builder()
            .name("strategy")
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            // `openapi::complete` adds the names that are offered.
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
        vec![strategy.build()]
    }
}
