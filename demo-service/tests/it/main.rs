//! The service as its clients see it, on real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod commits;
mod database;
mod lab;
mod program;

mod abandoned;
mod admin;
mod batches;
mod buying;
mod command;
mod conformance;
mod connections;
mod contract;
mod deadlines;
mod encryption;
mod ensembles;
mod fencing;
mod gate;
mod guards;
mod history;
mod key_ages;
mod keys;
mod layouts;
mod ledger;
mod limits;
mod load_tools;
mod logs;
mod looking;
mod metrics;
mod mixtures;
mod ordering;
mod outages;
mod ownership;
mod per_buyer;
mod poolers;
mod postgres_settings;
mod rates;
mod redis;
mod refusals;
mod registry;
mod remembered;
mod reservations;
mod secrets;
mod service_role;
mod shutdown;
mod silent_network;
mod slow_clients;
mod stopped_sections;
mod tickets;
mod zookeeper_user;
