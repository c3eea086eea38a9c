//! HTTP: listeners, limits, routes, problem documents and the OpenAPI document.

pub mod openapi;
pub mod places;
pub mod problem;
pub mod request_id;
pub mod router;
pub mod routes;
pub mod server;
