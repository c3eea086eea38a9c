//! The lab: the servers, the service, and the machine.

pub(crate) mod books;
pub(crate) mod build;
pub(crate) mod commits;
pub(crate) mod counters;
pub(crate) mod cpu;
pub(crate) mod deployment;
pub(crate) mod environment;
pub(crate) mod hazard;
pub(crate) mod history;
mod instances;
pub(crate) mod layouts;
mod links;
pub(crate) mod postgres;
mod postgres_counters;
pub(crate) mod postgres_load;
pub(crate) mod servers;
pub(crate) mod service;
pub(crate) mod service_program;
pub(crate) mod source;
pub(crate) mod stack;
pub(crate) mod strategy;
pub(crate) mod strike;
mod target;
pub(crate) mod technique;
pub(crate) mod traffic;
pub(crate) mod weather;
pub(crate) mod zookeeper;
