//! The load of one trial: many buyers, timed by us.
//!
//! Goose drives the users of the [`closed`] models. The times are taken here, as goose's own clock stops at the headers of
//! an answer and knows no instant that a request was meant to start at. Goose has no [`open`] model; arrivals at a rate are
//! started by us.

pub(crate) mod answer;
mod buyer;
mod closed;
mod gate;
pub(crate) mod health;
pub(crate) mod model;
mod open;
pub(crate) mod purchase;
pub(crate) mod sample;

use crate::error::Error;
use crate::load::model::LoadModel;
use crate::load::purchase::{Load, Purchase};

/// Lets the buyers buy.
///
/// # Errors
///
/// [`Error::Rendezvous`] when not all users can be started, [`Error::Generator`] when goose fails or loses a user.
///
/// # Cancel safety
///
/// Buyers that wait or buy give up; what the service had begun for them, it may finish.
pub(crate) async fn run(purchase: &Purchase) -> Result<Load, Error> {
    match purchase.model {
        LoadModel::Burst | LoadModel::Ramp { .. } | LoadModel::Loop { .. } => closed::run(purchase).await,
        LoadModel::Open { .. } => open::run(purchase).await,
    }
}
