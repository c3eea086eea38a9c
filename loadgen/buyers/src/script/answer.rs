//! The answer of a shop, as it was read.

use std::sync::OnceLock;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
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
}
