//! The headers of a line.

use reqwest::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};

/// Headers about the connection and the length of the body, which the client sets itself. `Accept-Encoding` would bring
/// answers that are compressed.
const SET_BY_CLIENT: [HeaderName; 6] = [ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE];

/// The headers of a line, in its order.
#[derive(Default)]
pub(super) struct Headers {
    pub(super) list: Vec<(HeaderName, String)>,
    /// Headers without a value, which curl then does not send either.
    removed: Vec<HeaderName>,
}

impl Headers {
    /// Reads `Name: value`, `Name:` and `Name;`. Browsers also copy the pseudo-headers of HTTP/2, which begin with a colon.
    pub(super) fn read(lines: &[String]) -> Result<Headers, String> {
        let mut headers = Headers::default();
        for line in lines.iter().filter(|line| !line.starts_with(':')) {
            if line.starts_with('@') {
                return Err(format!("curl's --header {line} names a file, which is not supported; write the header"));
            }
            let (name, value) = match (line.split_once(':'), line.strip_suffix(';')) {
                (Some((name, value)), _) => (name, Some(value.trim())),
                (None, Some(name)) => (name, None),
                (None, None) => {
                    return Err(format!("curl's --header {line:?} has no colon; write 'Name: value'"));
                }
            };
            headers.add(name.trim(), value)?;
        }
        Ok(headers)
    }

    fn add(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| format!("{name:?} is no name of a header; write 'Name: value'"))?;
        check(&known, value.unwrap_or_default())?;
        match value {
            _ if SET_BY_CLIENT.contains(&known) => {}
            Some("") => self.removed.push(known),
            value => self.list.push((known, value.unwrap_or_default().to_owned())),
        }
        Ok(())
    }

    /// Adds a header unless the line names it.
    pub(super) fn add_unless_named(&mut self, name: HeaderName, value: &str) -> Result<(), String> {
        check(&name, value)?;
        if !self.list.iter().any(|(known, _)| *known == name) && !self.removed.contains(&name) {
            self.list.push((name, value.to_owned()));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &HeaderName) {
        self.list.retain(|(known, _)| known != name);
    }
}

fn check(name: &HeaderName, value: &str) -> Result<(), String> {
    let read = HeaderValue::from_bytes(value.as_bytes());
    read.map(drop).map_err(|_| format!("the header {name} has a control character; remove it"))
}
