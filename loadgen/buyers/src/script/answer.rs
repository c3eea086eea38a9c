//! The answer of a shop, as it was read.

use std::sync::OnceLock;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

/// The answer of a shop: its status, its headers and the beginning of its body.
#[derive(Debug)]
pub struct ShopAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or its beginning if it is long.
    pub body: Vec<u8>,
    /// Whether only the beginning of the body was kept.
    pub is_cut: bool,
    json: OnceLock<Option<Value>>,
}

impl ShopAnswer {
    /// Makes an answer of its parts.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Vec<u8>, is_cut: bool) -> ShopAnswer {
        ShopAnswer { status, headers, body, is_cut, json: OnceLock::new() }
    }

    /// Returns the body as JSON, if it is JSON and was kept whole. The first call parses it.
    pub fn json(&self) -> Option<&Value> {
        let parse = || if self.is_cut { None } else { serde_json::from_slice(&self.body).ok() };
        self.json.get_or_init(parse).as_ref()
    }

    /// Returns whether a header of this name contains the text. A header may stand there several times.
    pub(crate) fn has_header(&self, name: &HeaderName, part: &str) -> bool {
        self.headers.get_all(name).iter().any(|value| contains(value.as_bytes(), part))
    }

    /// Returns whether the kept part of the body contains the text, as UTF-8 writes it.
    pub(crate) fn has_text(&self, part: &str) -> bool {
        contains(&self.body, part)
    }
}

/// Returns whether bytes contain a text. Of a body, not all bytes have to be UTF-8.
fn contains(bytes: &[u8], part: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(part)
}
