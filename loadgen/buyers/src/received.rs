//! The size of what a shop sends.

use reqwest::{Response, Version};

/// Returns the size of an answer's head on the wire in HTTP/1: a line for the status and one for each header.
pub(crate) fn head_bytes(response: &Response) -> u64 {
    if response.version() > Version::HTTP_11 {
        return 0;
    }
    let reason = response.status().canonical_reason().unwrap_or_default();
    let status_line = "HTTP/1.1 200 ".len() + reason.len() + 2;
    let headers = response.headers().iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2);
    (status_line + headers.sum::<usize>() + 2) as u64
}
