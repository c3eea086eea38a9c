//! What the buyers of any shop send, and what the answers mean, as a file describes them.
//!
//! | what | by whom |
//! |---|---|
//! | the description: requests, values to take, meanings | `steps`, `request`, `meaning` |
//! | texts with values, paths into JSON, sources of values | `template`, `json_path`, `source` |
//! | one request: fill, send, follow redirects, read, take values | `visit` |
//! | one buyer: its values, its cookies, sign-up, purchase, the wait in a queue | `customer` |
//! | what a buyer was told, or why that is unknown | `decision`, `doubt` |
//! | what a dry run shows, without secrets | `exchange`, `veil` |
//! | how a request leaves: by the client alone, or counted by goose | `transport` |
//!
//! `answer`, `json_path`, `meaning`, `source`, `template` and `veil` are pure: they know no clock, no task and no socket.
//!
//! The client of the buyers follows no redirect and keeps no cookie. Both are done here, for each buyer by itself, so that all
//! buyers share one client and its connections.

mod answer;
mod customer;
mod decision;
mod doubt;
mod exchange;
mod json_path;
mod meaning;
mod request;
mod source;
mod steps;
mod template;
#[cfg(test)]
mod tests;
mod transport;
mod veil;
mod visit;

pub use answer::ShopAnswer;
pub use customer::{Customer, SignUpError};
pub use decision::{Decision, ShopOutcome};
pub use doubt::Doubt;
pub use exchange::{Exchange, Observer, ShownAnswer, ShownRequest};
pub use json_path::{JsonPath, JsonPathError};
pub use meaning::{Meaning, Meanings, Pattern};
pub use request::{Body, FormPart, ScriptRequest};
pub use source::{Source, SourceError};
pub use steps::{Poll, Script, Steps};
pub use template::{MissingValue, Template, TemplateError, Values, encoded};
pub use transport::Transport;
