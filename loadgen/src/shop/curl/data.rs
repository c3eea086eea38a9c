//! The data of `--data` and of its relatives.

use std::path::Path;

use clap::ArgMatches;

use super::attached;

/// The kinds of data, by the names of their fields in `CurlLine`.
const KINDS: [(&str, DataKind); 5] = [
    ("data", DataKind::Ascii),
    ("data_raw", DataKind::Raw),
    ("data_binary", DataKind::Binary),
    ("data_urlencode", DataKind::Encoded),
    ("json", DataKind::Json),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataKind {
    /// A file of `@file` loses its line breaks.
    Ascii,
    /// `@` is a letter.
    Raw,
    Binary,
    Encoded,
    Json,
}

/// The data of a line, joined as curl joins them.
pub(super) struct Payload {
    pub(super) text: String,
    pub(super) is_json: bool,
}

impl Payload {
    /// Reads the data in the order of the line. `None` if it has none.
    pub(super) fn read(matches: &ArgMatches, folder: &Path) -> Result<Option<Payload>, String> {
        let mut parts: Vec<(usize, DataKind, &String)> = Vec::new();
        for (name, kind) in KINDS {
            let indices = matches.indices_of(name).into_iter().flatten();
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            parts.extend(indices.zip(texts).map(|(index, text)| (index, kind, text)));
        }
        parts.sort_by_key(|(index, ..)| *index);
        let mut payload: Option<Payload> = None;
        for (_, kind, text) in parts {
            let piece = kind.read(text, folder)?;
            let before = payload.get_or_insert(Payload { text: String::new(), is_json: false });
            if kind == DataKind::Json {
                before.is_json = true;
            } else if !before.text.is_empty() {
                before.text.push('&');
            }
            before.text.push_str(&piece);
        }
        Ok(payload)
    }

    /// Returns the content type that curl declares unless the line names one.
    pub(super) fn mime(&self) -> &'static str {
        if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" }
    }
}

impl DataKind {
    fn read(self, text: &str, folder: &Path) -> Result<String, String> {
        match (self, text.strip_prefix('@')) {
            (DataKind::Encoded, _) => encoded(text, folder),
            (DataKind::Ascii, Some(file)) => Ok(attached::text(file, folder)?.replace(['\r', '\n', '\0'], "")),
            (DataKind::Binary | DataKind::Json, Some(file)) => attached::text(file, folder),
            (DataKind::Raw, Some(_)) | (_, None) => Ok(text.to_owned()),
        }
    }
}

/// Encodes `content`, `=content`, `name=content`, `@file` or `name@file`: the name stays as it is.
fn encoded(text: &str, folder: &Path) -> Result<String, String> {
    let (name, content) = match text.find(['=', '@']) {
        Some(at) if text[at..].starts_with('=') => (&text[..at], text[at + 1..].to_owned()),
        Some(at) => (&text[..at], attached::text(&text[at + 1..], folder)?),
        None => ("", text.to_owned()),
    };
    if content.contains("{{") {
        return Err(
            "curl's --data-urlencode cannot encode a value that is filled in later; write --data, which sends the \
                    value as it is"
                .to_owned(),
        );
    }
    let joint = if name.is_empty() { "" } else { "=" };
    Ok(format!("{name}{joint}{}", content.bytes().map(escaped).collect::<String>()))
}

/// Writes a byte as a form has it in a URL.
fn escaped(byte: u8) -> String {
    match byte {
        b' ' => "+".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}
