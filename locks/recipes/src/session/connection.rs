//! How a session connects to the servers, and one connection.

pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod established;
pub(crate) mod inquiry;
pub(crate) mod servers;
pub(crate) mod session_phase;
pub(crate) mod symptoms;
pub(crate) mod task_link;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "connection/no_tls.rs"]
pub(crate) mod tls;
pub(crate) mod watched;
