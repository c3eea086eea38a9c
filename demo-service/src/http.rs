//! HTTP: listeners, limits, routes, problem documents and the OpenAPI document.

pub mod audience;
mod connection;
mod connections;
mod instances;
mod limits;
mod open_files;
pub mod openapi;
pub mod problem;
mod rates;
pub mod request_id;
pub mod router;
pub mod routes;
pub mod server;
mod wire;
