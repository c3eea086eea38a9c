//! A shop that a file describes, and what is done at it once for all buyers.
//!
//! | file | has |
//! |---|---|
//! | `described` | the shop, as the rest of the program sees it |
//! | `read`, `file`, `keys`, `patterns`, `quick` | the way from a file, or from flags, to a shop |
//! | `curl`, `words`, `scope`, `address` | one request: its line, its values, where it may go |
//! | `people` | the buyers of a CSV file |
//! | `secrets` | what no screen and no report may show |
//! | `errands`, `book`, `database` | the stock is put on sale, the books are read |
//! | `reproduction` | a script of a few buyers, for the maintainer of a shop that sells wrongly |
//!
//! A shop is read whole before anything is sent: files that it names, variables of the environment, values of each request.

mod address;
mod book;
mod curl;
mod database;
mod described;
mod draft;
mod errands;
mod file;
mod keys;
mod noted;
mod patterns;
mod people;
mod quick;
mod read;
mod reproduction;
mod scope;
mod secrets;
mod words;

pub(crate) use self::book::book;
pub(crate) use self::described::Shop;
pub(crate) use self::errands::{carry_out, client, client_of_user};
pub(crate) use self::patterns::parse as parse_pattern;
pub(crate) use self::people::People;
pub(crate) use self::quick::{QuickShop, read_quick};
pub(crate) use self::read::{read, read_for_scenario};
pub(crate) use self::reproduction::{Crowd, reproduction};
pub(crate) use self::secrets::{HIDDEN, Secrets, is_secret_header};

/// A shop file with every key, in comments where a shop can do without it.
pub(crate) const TEMPLATE: &str = include_str!("shop/template.toml");
