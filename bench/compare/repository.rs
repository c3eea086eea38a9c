//! The repository: its revisions, and a work tree for one of them.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::Error;
use crate::process::output;

/// The work tree that the program was started in.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
}

/// A commit.
#[derive(Debug)]
pub(crate) struct Commit {
    hash: String,
    /// Its short hash and its subject.
    pub(crate) title: String,
}

impl Repository {
    /// The one that the current folder is in.
    ///
    /// # Errors
    /// [`Error::NoRepository`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn here() -> Result<Self, Error> {
        let mut command = Command::new("git");
        match output("git", command.args(["rev-parse", "--show-toplevel"])).await {
            Ok(root) => Ok(Self { root: root.trim_end_matches('\n').into() }),
            Err(Error::Failed { output, .. }) => Err(Error::NoRepository(output)),
            Err(other) => Err(other),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The commit that a user means.
    ///
    /// # Errors
    /// [`Error::UnknownRevision`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn commit(&self, revision: &str) -> Result<Commit, Error> {
        let commit = format!("{revision}^{{commit}}");
        match self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await {
            Ok(hash) => {
                let hash = hash.trim_end().to_owned();
                let title = self.git(&["log", "-1", "--format=%h %s", &hash]).await?.trim_end().to_owned();
                Ok(Commit { hash, title })
            }
            Err(Error::Failed { .. }) => Err(Error::UnknownRevision(revision.to_owned())),
            Err(other) => Err(other),
        }
    }

    /// Whether what is on disk differs from what is committed.
    ///
    /// # Errors
    /// When git does not say.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn is_changed(&self) -> Result<bool, Error> {
        Ok(!self.git(&["status", "--porcelain"]).await?.is_empty())
    }

    /// Checks a commit out into a folder of its own.
    ///
    /// # Errors
    /// When git refuses.
    ///
    /// # Cancel safety
    /// Dropped, the work tree may be there in part; remove it.
    pub(crate) async fn add_worktree(&self, folder: &Path, commit: &Commit) -> Result<(), Error> {
        let folder = folder.to_string_lossy();
        self.git(&["worktree", "add", "--quiet", "--detach", &folder, &commit.hash]).await.map(drop)
    }

    /// Removes a work tree, whole or in part, if it is there.
    ///
    /// # Errors
    /// When git or the operating system refuses.
    ///
    /// # Cancel safety
    /// Dropped, the work tree may be there in part; remove it again.
    pub(crate) async fn remove_worktree(&self, folder: &Path) -> Result<(), Error> {
        let name = folder.to_string_lossy();
        let known = self.git(&["worktree", "list", "--porcelain"]).await?;
        if known.lines().any(|line| line.strip_prefix("worktree ") == Some(&name)) {
            // Given twice, it removes also what is locked, as a work tree is while it is being made.
            self.git(&["worktree", "remove", "--force", "--force", &name]).await?;
        }
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(Error::file("remove", folder))?;
        }
        Ok(())
    }

    async fn git(&self, arguments: &[&str]) -> Result<String, Error> {
        let what = format!("git {}", arguments.join(" "));
        output(&what, Command::new("git").args(arguments).current_dir(&self.root)).await
    }
}
