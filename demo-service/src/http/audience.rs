//! Whom a listener serves.

/// The clients that a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Everybody, if there is only one listener.
    Everybody,
    /// Buyers. They get no metrics and no administration.
    Buyers,
    /// Operators. They get probes, metrics and administration.
    Operators,
}
