//! Purchases that the database alone keeps apart, or that nothing does.

pub(super) mod advisory;
pub(super) mod conditional;
pub(super) mod function;
pub(super) mod optimistic;
pub(super) mod row_lock;
pub(super) mod unguarded;
