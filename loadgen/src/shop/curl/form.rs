//! The parts of `--form`.

use std::path::Path;

use super::attached;

/// The content types that curl tells by a file's name. Other files are bytes.
const MIMES: [(&str, &str); 9] = [
    ("gif", "image/gif"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("html", "text/html"),
    ("pdf", "application/pdf"),
    ("xml", "application/xml"),
];

/// A part of a form.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::shop) struct CurlPart {
    pub(in crate::shop) name: String,
    pub(in crate::shop) value: String,
    pub(in crate::shop) file_name: Option<String>,
    pub(in crate::shop) mime: Option<String>,
}

/// Reads `name=text` or `name=@file`, each with `;type=` and `;filename=` behind it.
pub(super) fn read(form: &str, folder: &Path) -> Result<CurlPart, String> {
    let (name, content) = form
        .split_once('=')
        .ok_or_else(|| format!("curl's --form {form:?} has no =; write name=text, or name=@file to send a file"))?;
    let (content, attributes) = attributes(content);
    let mut part = match (content.strip_prefix('@'), content.starts_with('<')) {
        (Some(file), _) => upload(name, file, folder)?,
        (None, true) => {
            return Err("curl's --form with < is not supported; write name=@file, or the text itself".to_owned());
        }
        (None, false) => CurlPart { name: name.to_owned(), value: unquoted(content), file_name: None, mime: None },
    };
    for attribute in attributes {
        match attribute.split_once('=') {
            Some(("type", mime)) => part.mime = Some(unquoted(mime)),
            Some(("filename", file_name)) => part.file_name = Some(unquoted(file_name)),
            _ => {
                return Err(format!(
                    "curl's --form with ;{attribute} is not supported; supported are ;type= and ;filename="
                ));
            }
        }
    }
    Ok(part)
}

/// Splits the attributes from a content. A `;` in a text begins one only before a name of an attribute.
fn attributes(content: &str) -> (&str, Vec<&str>) {
    let begins = |rest: &str| ["type=", "filename=", "headers=", "encoder="].iter().any(|name| rest.starts_with(name));
    let ends: Vec<usize> =
        content.match_indices(';').map(|(at, _)| at).filter(|at| begins(&content[at + 1..])).collect();
    let Some(first) = ends.first() else { return (content, Vec::new()) };
    let lasts = ends.iter().skip(1).copied().chain([content.len()]);
    (&content[..*first], ends.iter().zip(lasts).map(|(from, to)| &content[from + 1..to]).collect())
}

fn upload(name: &str, file: &str, folder: &Path) -> Result<CurlPart, String> {
    let file = unquoted(file);
    let path = Path::new(&file);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mime = MIMES.iter().find(|(known, _)| *known == extension).map_or("application/octet-stream", |(_, mime)| mime);
    Ok(CurlPart {
        name: name.to_owned(),
        value: attached::text(&file, folder)?,
        file_name: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        mime: Some(mime.to_owned()),
    })
}

/// Returns the text within quotation marks, or the text itself.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.map_or_else(|| text.to_owned(), |inner| inner.replace("\\\"", "\"").replace("\\\\", "\\"))
}
