//! Files that a line of curl sends.

use std::fs;
use std::path::Path;

/// Reads a file of `@file` as text.
pub(super) fn text(name: &str, folder: &Path) -> Result<String, String> {
    if name == "-" {
        return Err("curl's @- reads standard input, which is not supported; name a file".to_owned());
    }
    let path = folder.join(name);
    let bytes = fs::read(&path).map_err(|error| {
        format!("could not read {}: {error}; the path of @file begins in the folder of the shop file", path.display())
    })?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8, and only text can be sent", path.display()))
}
