//! The way to ZooKeeper: its servers, and the credentials and certificates for them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use zk_recipes::{Acl, Auth, Permissions, Session, SessionConfig, Tls};

use crate::error::Error;

/// The environment variable with the servers.
pub(crate) const SERVERS_VARIABLE: &str = "ZOOKEEPER_CONNECT";
/// The environment variable with the credentials.
pub(crate) const AUTH_VARIABLE: &str = "ZK_LOCK_AUTH";

/// The settings of a session.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    pub(crate) connect_string: String,
    pub(crate) session: SessionConfig,
}

impl ServerSettings {
    /// Opens a session.
    pub(crate) async fn connect(&self) -> Result<Session, Error> {
        Session::connect(&self.connect_string, self.session.clone()).await.map_err(Error::connect)
    }
}

/// Returns the credentials in the file, or else in the environment, which `variable` reads. `None` if there are none.
pub(crate) fn credentials(
    file: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Auth>, Error> {
    match file {
        Some(file) => auth_in(file).map(Some),
        None => match variable(AUTH_VARIABLE) {
            Some(text) if !text.is_empty() => parse_auth(&text, AUTH_VARIABLE).map(Some),
            _ => Ok(None),
        },
    }
}

pub(crate) fn session_config(timeout: Duration, connect_within: Duration, auth: Option<Auth>) -> SessionConfig {
    let config = SessionConfig::default().with_timeout(timeout).with_connect_within(connect_within);
    // With credentials, nobody else may delete the nodes. Everyone may see the queue: that does no harm.
    let readable = || Acl::creator().and("world", "anyone", Permissions::READ);
    auth.map_or(config.clone(), |auth| config.with_auth(auth).with_acl(readable()))
}

/// Reads the certificate of the authority, and our own with its key.
pub(crate) fn tls(authority: &Path, identity: Option<(&Path, &Path)>) -> Result<Tls, Error> {
    let read = |file: &Path| fs::read_to_string(file).map_err(|source| Error::Pem { file: file.to_owned(), source });
    let tls = Tls::trusting(read(authority)?);
    match identity {
        Some((certificate, key)) => Ok(tls.with_identity(read(certificate)?, read(key)?)),
        None => Ok(tls),
    }
}

fn auth_in(file: &Path) -> Result<Auth, Error> {
    let text = fs::read(file).map_err(|source| Error::Credentials { file: file.to_owned(), source })?;
    // Editors end a file with a line break.
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    parse_auth(OsStr::from_bytes(&text[..end]), &file.display().to_string())
}

/// Reads `USER:PASSWORD`; the error shows neither.
fn parse_auth(text: &OsStr, place: &str) -> Result<Auth, Error> {
    match text.to_str().and_then(|text| text.split_once(':')) {
        Some((user, password)) if !user.is_empty() && !password.is_empty() && !has_control_characters(text) => {
            Ok(Auth::digest(user, password))
        }
        _ => Err(Error::Usage(format!("the credentials in {place} must be USER:PASSWORD, in UTF-8, on one line"))),
    }
}

fn has_control_characters(text: &OsStr) -> bool {
    text.as_encoded_bytes().iter().any(|byte| byte.is_ascii_control())
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_credentials_are_never_shown() {
        for wrong in ["sesame", ":sesame", "sesame:", "shop:ses\name"] {
            let error = credentials(None, |_| Some(wrong.into())).unwrap_err();
            assert_eq!(
                crate::error::chain(&error),
                "the credentials in ZK_LOCK_AUTH must be USER:PASSWORD, in UTF-8, on one line",
                "{wrong:?}"
            );
        }
    }
}
