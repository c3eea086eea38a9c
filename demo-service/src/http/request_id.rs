//! The id of a request. The answer, the log lines and the problem document of the request have it.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use tracing::{Instrument, Span, info_span};

/// The header with the id, in requests and in answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client, in bytes.
pub const BYTES_MAX: usize = 128;

/// The prefix of the `instance` of each problem. The id follows, percent-encoded.
pub const URN_PREFIX: &str = "urn:seckill-lab:request:";

tokio::task_local! {
    static CURRENT: HeaderValue;
}

/// Returns the id of the request that this task answers, as a URN. Returns `None` outside of requests.
pub fn current_urn() -> Option<String> {
    CURRENT.try_with(|id| urn(id.as_bytes())).ok()
}

/// Removes an id that must not go into logs and answers: an id that is too long or not printable, or several ids.
pub fn forget_unusable(mut request: Request) -> Request {
    let headers = request.headers_mut();
    let mut ids = headers.get_all(REQUEST_ID).iter();
    let is_usable = ids.next().is_some_and(|id| is_usable(id.as_bytes())) && ids.next().is_none();
    if !is_usable {
        headers.remove(REQUEST_ID);
    }
    request
}

fn is_usable(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// The id and the log span of a request.
pub struct Identity {
    id: Option<HeaderValue>,
    span: Span,
}

impl Identity {
    /// Reads the identity of a request that already has its id.
    pub fn of(request: &Request) -> Self {
        let id = request.headers().get(REQUEST_ID).cloned();
        let shown = id.as_ref().and_then(|id| id.to_str().ok());
        let span = info_span!("request", id = shown, method = %request.method(), uri = %request.uri());
        Self { id, span }
    }

    /// Runs `answer` under this identity: [`current_urn`] returns its id, and its log lines have the span.
    ///
    /// # Cancel safety
    /// As `answer`.
    pub async fn around<T>(self, answer: impl Future<Output = T>) -> T {
        match self.id {
            Some(id) => CURRENT.scope(id, answer).instrument(self.span).await,
            None => answer.instrument(self.span).await,
        }
    }
}

fn urn(id: &[u8]) -> String {
    let mut urn = URN_PREFIX.to_owned();
    for byte in id {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => urn.push(char::from(*byte)),
            _ => urn.push_str(&format!("%{byte:02X}")),
        }
    }
    urn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_visible() {
        let longest = "i".repeat(BYTES_MAX);
        for id in ["1", "3f1c8f0e-8a0e-4d0e-9a55-0d6c3d7b8a11", "{\"a\":1}", &longest] {
            assert!(is_usable(id.as_bytes()), "{id:?}");
        }
        for id in ["", " ", "two words", "tab\t", "schlüssel", &"i".repeat(BYTES_MAX + 1)] {
            assert!(!is_usable(id.as_bytes()), "{id:?}");
        }
    }

    #[test]
    fn an_id_of_any_characters_makes_a_well_formed_urn() {
        assert_eq!(urn(b"3f1c-8a.0_e~"), "urn:seckill-lab:request:3f1c-8a.0_e~");
        assert_eq!(urn(b"a/b%c\"<#"), "urn:seckill-lab:request:a%2Fb%25c%22%3C%23");
    }
}
