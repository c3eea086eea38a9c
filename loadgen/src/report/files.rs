//! The folder of a report, and the files in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use nix::unistd::{getegid, geteuid};
use program::FromSystem as _;

use crate::error::Error;
use crate::lab::strategy::as_file_name;
use crate::report::capacity::CapacityReport;
use crate::report::{Report, html, json, markdown};
use crate::trial::goose::{GooseFormat, GooseReports};

/// The report for programs.
pub(crate) const JSON: &str = "report.json";
/// The report for people.
pub(crate) const HTML: &str = "report.html";
/// The report for a pull request.
pub(crate) const MARKDOWN: &str = "report.md";
/// The comparison of two builds for a pull request, if two were compared.
const DIFF: &str = "diff.md";
/// What a search for a capacity has found, for programs and for people.
const CAPACITY_JSON: &str = "capacity.json";
pub(crate) const CAPACITY_MARKDOWN: &str = "capacity.md";
/// Every single request, as JMeter writes it.
pub(crate) const JTL: &str = "results.jtl";
/// The folder of the distributions, one file per strategy, for HdrHistogram's plotters. Also their extension.
const HGRM: &str = "hgrm";
/// The folder of goose's own reports, one file per trial.
const GOOSE: &str = "goose";
/// The folder of the scripts that make a shop sell wrongly, one file per shop, and their extension.
const REPRODUCTION: [&str; 2] = ["reproduction", "sh"];
/// Extension of a file until it is complete.
pub(crate) const UNFINISHED: &str = "unfinished";

/// The file that is locked while a program writes into the folder. It is never removed: otherwise two programs could lock
/// two files of this name.
const LOCK: &str = ".loadgen.lock";

/// The user of the load generator in `Dockerfile`, to whom `docker-compose.yml` gives the folder.
const COMPOSE_USER: u32 = 10_002;

/// The folder of a report, which no other `loadgen` writes into.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// The system unlocks it at the end of this process, even after a kill.
    _lock: File,
}

impl Files {
    /// Makes the folder if it does not exist, and leaves its files. Called before the trials, so that a wrong folder does
    /// not cost minutes of work.
    pub(crate) fn open(folder: &Path) -> Result<Files, Error> {
        fs::create_dir_all(folder).map_err(Error::system(format!("make the folder {}", folder.display())))?;
        let unwritable = || {
            |error| {
                let owner = fs::metadata(folder).map_or(0, |found| found.uid());
                unwritable(folder, owner, [geteuid().as_raw(), getegid().as_raw()], error)
            }
        };
        let lock = File::create(folder.join(LOCK)).map_err(unwritable())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::FolderInUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(unwritable()(error)),
        }
        // The lock of an earlier run may be writable in a folder that takes no new files.
        let probe = folder.join(format!("{LOCK}.{UNFINISHED}"));
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(unwritable())?;
        Ok(Files { folder: folder.to_owned(), _lock: lock })
    }

    /// Removes the report of an earlier comparison. If this one fails, the old report must not pass for its result.
    pub(crate) fn remove_old(&self) -> Result<(), Error> {
        let of_goose: Vec<&str> = GooseFormat::value_variants().iter().map(|format| format.extension()).collect();
        let mut old = [JSON, HTML, MARKDOWN, DIFF, JTL].map(|name| self.path(name)).to_vec();
        old.extend(self.left_in(HGRM, &[HGRM])?);
        old.extend(self.left_in(GOOSE, &of_goose)?);
        let [scripts, sh] = REPRODUCTION;
        old.extend(self.left_in(scripts, &[sh])?);
        for path in old {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::system(format!("remove the old {}", path.display()))(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes sure that a file in any folder can be written, and leaves it as it is.
    pub(crate) fn ensure_writable(path: &Path) -> Result<(), Error> {
        let is_new = !path.exists();
        let opened = File::options().append(true).create(true).open(path);
        opened.map_err(Error::system(format!("write {}", path.display())))?;
        if is_new {
            // An empty file does no harm if it cannot be removed.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Returns the path of a file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes the folder that goose writes its reports into.
    pub(crate) fn goose_reports(&self, format: GooseFormat) -> Result<GooseReports, Error> {
        Ok(GooseReports { folder: self.make(GOOSE)?, format })
    }

    fn make(&self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.path(name);
        fs::create_dir_all(&folder).map_err(Error::system(format!("make the folder {}", folder.display())))?;
        Ok(folder)
    }

    /// Lists the files with these extensions that an earlier comparison has left in a folder.
    fn left_in(&self, name: &str, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let folder = self.path(name);
        let failed = || Error::system(format!("list the folder {}", folder.display()));
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed())?.path();
            if path.extension().is_some_and(|extension| extensions.iter().any(|ours| extension == *ours)) {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Writes all files of a report. The file for programs comes first, because the others can be made from it.
    pub(crate) fn write(&self, report: &Report) -> Result<(), Error> {
        self.write_file(JSON, &json::render(report)?)?;
        self.write_rendered(report)
    }

    /// Writes what a search for a capacity has found.
    pub(crate) fn write_capacity(&self, report: &CapacityReport) -> Result<(), Error> {
        let failed = |error| Error::Generator(format!("the results cannot be written as JSON: {error}"));
        self.write_file(CAPACITY_JSON, &serde_json::to_string_pretty(report).map_err(failed)?)?;
        self.write_file(CAPACITY_MARKDOWN, &report.markdown())
    }

    /// Writes everything but the report for programs.
    pub(crate) fn write_rendered(&self, report: &Report) -> Result<(), Error> {
        let metrics = &report.metrics()[..];
        self.write_file(MARKDOWN, &markdown::render(report, metrics))?;
        if let Some(builds) = &report.builds {
            self.write_file(DIFF, &markdown::diff(builds, metrics))?;
        }
        self.write_file(HTML, &html::render(report, metrics)?)?;
        for reproduction in &report.reproductions {
            self.make(REPRODUCTION[0])?;
            self.write_file(&Files::script_of(&reproduction.shop), &reproduction.script)?;
        }
        self.make(HGRM)?;
        for result in report.results.iter().filter(|result| result.latency.response.sold.count() > 0) {
            let users = if report.schedule.users.len() > 1 { format!("-{}", result.users) } else { String::new() };
            let strategy = as_file_name(&result.strategy, result.build.as_deref(), result.hazard);
            let name = format!("{HGRM}/{strategy}{users}.{HGRM}");
            self.write_file(&name, &result.latency.response.sold.hgrm())?;
        }
        Ok(())
    }

    /// Returns the name of the script that makes a shop sell wrongly.
    pub(crate) fn script_of(shop: &str) -> String {
        let [scripts, sh] = REPRODUCTION;
        format!("{scripts}/{}.{sh}", as_file_name(shop, None, None))
    }

    /// Writes a file as a whole: a reader sees the old one or the new one.
    fn write_file(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        let unfinished = path.with_added_extension(UNFINISHED);
        let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &path));
        written.map_err(|error| {
            // An incomplete file is useless, and may be what fills the disk.
            let _ = fs::remove_file(&unfinished);
            Error::system(format!("write {}", path.display()))(error)
        })
    }
}

/// Explains why the folder cannot be written, with its owner if that is another user.
fn unwritable(folder: &Path, owner: u32, [user, group]: [u32; 2], source: io::Error) -> Error {
    if owner == user || source.kind() != ErrorKind::PermissionDenied {
        return Error::system(format!("write into the folder {}", folder.display()))(source);
    }
    // Only the containers write reports as this user.
    let is_of_containers = owner == COMPOSE_USER;
    let known = if is_of_containers { " (the load generator of the containers)" } else { "" };
    let quoted = folder.to_string_lossy().replace('\'', r"'\''");
    let take = is_of_containers.then(|| format!("take it by `sudo chown -R {user}:{group} '{quoted}'`, or "));
    let remedy = format!("{}choose another folder with --out", take.unwrap_or_default());
    Error::ForeignFolder { folder: folder.to_owned(), owner: format!("{owner}{known}"), remedy, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C27
    #[test]
    fn a_folder_of_another_user_is_told_with_its_owner() {
        let said =
            |owner, kind: ErrorKind| program::chain(&unwritable("report".as_ref(), owner, [1000, 100], kind.into()));
        assert_eq!(
            said(COMPOSE_USER, ErrorKind::PermissionDenied),
            "could not write into the folder report: it belongs to user 10002 (the load generator of the containers); take it by \
             `sudo chown -R 1000:100 'report'`, or choose another folder with --out: permission denied"
        );
        assert!(said(7, ErrorKind::PermissionDenied).contains("belongs to user 7; choose another folder with --out"));
        assert_eq!(
            said(1000, ErrorKind::PermissionDenied),
            "could not write into the folder report: permission denied"
        );
        assert_eq!(said(7, ErrorKind::StorageFull), "could not write into the folder report: no storage space");
    }
}
