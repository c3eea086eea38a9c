//! The file of `--env`, which tells a shell where the lab is.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use program::FromSystem as _;

use crate::error::Error;
use crate::report::files::{Files, UNFINISHED};

/// How the text of a lab begins. A file that begins otherwise is not ours to replace.
pub(super) const BEGINNING: &str = "# Every SKU below holds ";

/// The file, which exists while the lab runs.
#[derive(Debug)]
pub(super) struct EnvFile {
    path: PathBuf,
    /// The text of the file, once the lab is ready.
    text: String,
}

impl EnvFile {
    /// Removes the file of an earlier lab, and makes sure that there can be a new one.
    pub(super) fn prepare(path: &Path) -> Result<EnvFile, Error> {
        let shown = path.display();
        match fs::metadata(path) {
            Ok(found) => {
                let is_ours = found.is_file() && is_of_lab(path).map_err(Error::system(format!("read {shown}")))?;
                if !is_ours {
                    let text = format!("{shown} was not written by `loadgen up`; name another file with --env");
                    return Err(Error::Usage(text));
                }
                fs::remove_file(path).map_err(Error::system(format!("remove the old {shown}")))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::system(format!("read {shown}"))(error)),
        }
        Files::ensure_writable(&unfinished(path))?;
        Ok(EnvFile { path: path.to_owned(), text: String::new() })
    }

    /// Writes the file as a whole. Only its owner may read it, as it has the administrator's token.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Error> {
        let unfinished = unfinished(&self.path);
        // A file that an earlier lab left may be readable for others.
        let _ = fs::remove_file(&unfinished);
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let written = created.and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&unfinished, &self.path)).map_err(|error| {
            let _ = fs::remove_file(&unfinished);
            Error::system(format!("write {}", self.path.display()))(error)
        })?;
        text.clone_into(&mut self.text);
        Ok(())
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        // By now, another lab may have written the file.
        if !self.text.is_empty() && fs::read(&self.path).is_ok_and(|found| found == self.text.as_bytes()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the name of the file until it is complete.
fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension(UNFINISHED)
}

fn is_of_lab(path: &Path) -> std::io::Result<bool> {
    Ok(fs::read(path)?.starts_with(BEGINNING.as_bytes()))
}
