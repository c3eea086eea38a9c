//! Refusals of the operating system.

use std::io;

/// The operating system refused something.
#[derive(Debug, thiserror::Error)]
#[error("could not {action}")]
pub struct SystemError {
    action: String,
    source: io::Error,
}

/// An error that has a [`SystemError`] among its kinds.
pub trait FromSystem: From<SystemError> {
    /// Makes an error for `map_err`: the operating system refused `action`.
    fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| SystemError { action, source }.into()
    }
}

impl<E: From<SystemError>> FromSystem for E {}
