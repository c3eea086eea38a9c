//! Values with the line that they come from.

/// A value, and where it was read: `shop.toml:12`, or the flag that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Noted<T> {
    pub(super) value: T,
    pub(super) origin: String,
}

impl<T> Noted<T> {
    pub(super) fn new(value: T, origin: impl Into<String>) -> Self {
        Noted { value, origin: origin.into() }
    }

    /// Says what is wrong with the value, and where it stands.
    pub(super) fn refuse(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.origin)
    }

    /// Converts the value. A refusal names where it stands.
    pub(super) fn read<U, E: std::fmt::Display>(&self, read: impl FnOnce(&T) -> Result<U, E>) -> Result<U, String> {
        read(&self.value).map_err(|what| self.refuse(what))
    }
}
