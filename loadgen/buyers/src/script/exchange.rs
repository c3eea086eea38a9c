//! What a dry run shows of each request and its answer.

use reqwest::header::HeaderMap;
use reqwest::{Method, Request};

use super::answer::ShopAnswer;
use super::template::Values;
use super::veil::Veil;

/// Receives every exchange. Nothing is copied without one.
pub type Observer<'a> = Option<&'a mut (dyn FnMut(&Exchange) + Send)>;

/// How much of a body is shown, in characters.
const BODY_SHOWN_CHARS: usize = 16 * 1024;

/// A request and its answer. Secret values are shown as `…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Where the request was described, as `shop.toml:12`.
    pub origin: String,
    /// The request.
    pub request: ShownRequest,
    /// The answer. Absent if none came, or if its body broke off.
    pub answer: Option<ShownAnswer>,
    /// The values that were taken from the answer.
    pub taken: Values,
    /// How the answer was read: its meaning, that the next request follows, or what is wrong.
    pub reading: String,
}

/// A request, as it was sent. The client adds `host`, `accept` and the length of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRequest {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: String,
    /// The headers, in the order of their names' first use.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body. A form has a line for each part.
    pub body: String,
}

/// An answer, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAnswer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: String,
}

impl Exchange {
    /// Returns the exchange that begins with a request. Its body is given apart, as a form streams its own.
    pub(crate) fn of(origin: &str, request: &Request, body: String) -> Exchange {
        let request = ShownRequest {
            method: request.method().clone(),
            url: request.url().to_string(),
            headers: shown(request.headers()),
            body,
        };
        Exchange { origin: origin.to_owned(), request, answer: None, taken: Values::new(), reading: String::new() }
    }

    /// Hides the secrets, and shortens what is long.
    pub(crate) fn veiled(mut self, veil: &Veil) -> Exchange {
        let hide = |text: &mut String| *text = veil.over(text);
        let hide_body = |body: &mut String| *body = veil.over(body).chars().take(BODY_SHOWN_CHARS).collect();
        hide(&mut self.request.url);
        hide_body(&mut self.request.body);
        self.request.headers.iter_mut().for_each(|(_, value)| hide(value));
        if let Some(answer) = &mut self.answer {
            answer.headers.iter_mut().for_each(|(_, value)| hide(value));
            hide_body(&mut answer.body);
        }
        self.taken.values_mut().for_each(hide);
        hide(&mut self.reading);
        self
    }
}

impl ShownAnswer {
    pub(crate) fn of(answer: &ShopAnswer) -> ShownAnswer {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        ShownAnswer { status: answer.status.as_u16(), headers: shown(&answer.headers), body }
    }
}

/// Returns headers as text. The client marks as sensitive what it makes of a password in a URL.
fn shown(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let shown = headers.iter().map(|(name, value)| {
        let value = if value.is_sensitive() { "…".to_owned() } else { text(value.as_bytes()) };
        (name.to_string(), value)
    });
    shown.collect()
}
