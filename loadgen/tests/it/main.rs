//! Runs the built `loadgen`, with real servers and real instances behind it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod action;
mod before;
mod broken;
mod browser;
mod builds;
mod capacity;
mod check;
mod checked;
mod compare;
mod engines;
mod forms;
mod goose;
mod goose_scenario;
mod hazards;
mod jmeter;
mod judged;
mod k6;
mod layouts;
mod limits;
mod observers;
mod overlaps;
mod page;
mod plain_shop;
mod provoked;
mod redis;
mod reservations;
mod results_log;
mod setup;
mod shop_books;
mod shops;
mod silence;
mod simulate;
mod stop;
mod support;
mod target;
mod tickets;
mod torture;
mod tutorial;
mod unchecked;
mod usage;
mod verdicts;
