//! What the load generator judges by, apart from the program around it, so that the benches can count its instructions:
//! the [`audit`] of what a trial sold, and the [`stats`] of its times. Both are pure.

pub mod audit;
pub mod stats;
