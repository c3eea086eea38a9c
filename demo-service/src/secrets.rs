//! Secrets. Each comes from an environment variable or a file. None is an argument, because everybody on a machine
//! sees command lines. No log line or error shows a secret.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

/// The environment variable with the token of the administrator.
pub const ADMIN_TOKEN: &str = "ADMIN_TOKEN";
/// The environment variable with the password that the role of the service gets.
pub const SERVICE_PASSWORD: &str = "SERVICE_PASSWORD";
/// The environment variable with the URL of Redis, which may have a password.
pub const REDIS_URL: &str = "REDIS_URL";
/// The environment variable with the user and password of the service in ZooKeeper.
pub const ZOOKEEPER_AUTH: &str = "ZOOKEEPER_AUTH";

/// A password or token. `Debug` hides it, and its memory is overwritten when it is dropped.
#[derive(Debug, Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Makes a secret, or returns `None` when `text` is empty: an empty variable is one that is not set.
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// Reads a secret from the environment variable named `variable`, whose value is `value`, or from `file`. Without
    /// either there is no secret. The option for the file is the name of the variable with `-file` at its end.
    ///
    /// # Errors
    /// What is wrong with the variable or the file, and the remedy, without the secret.
    pub fn read(variable: &str, value: Option<OsString>, file: Option<&Path>) -> Result<Option<Self>, String> {
        let option = format!("--{}-file ({variable}_FILE)", variable.to_lowercase().replace('_', "-"));
        match (value.filter(|value| !value.is_empty()), file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(format!("{variable} and {option} are both given; leave one of them out")),
            // If this counted as "not set", the service would run without the protection that was asked for.
            (Some(value), None) => value.into_string().map(Self::new).map_err(|_| {
                format!("{variable} is not valid UTF-8 (its value is not shown); set it to text in UTF-8")
            }),
            (None, Some(file)) => Self::in_file(file, &option).map(Some),
        }
    }

    fn in_file(file: &Path, option: &str) -> Result<Self, String> {
        let named = format!("{} of {option}", file.display());
        let text = fs::read_to_string(file).map(SecretString::from).map_err(|error| {
            format!("cannot read {named}: {error}; give a file with text in UTF-8 that the service may read")
        })?;
        let line = text.expose_secret();
        // An editor ends the file with a line break, which is no part of the secret.
        let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        Self::new(line.to_owned())
            .ok_or_else(|| format!("{named} is empty; write the secret into it, or leave {option} out"))
    }

    /// Returns the text itself, for the code that sends or hashes it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns whether `candidate` is the secret. The time that this takes reveals the length of the secret at most.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.expose().as_bytes().ct_eq(candidate).into()
    }
}

/// The user of the service in ZooKeeper. Only clients with its password may use its locks.
#[derive(Debug, Clone)]
pub struct ZooKeeperUser {
    /// The name, which ACLs show.
    pub name: String,
    /// The password.
    pub password: Secret,
}

impl ZooKeeperUser {
    /// Reads `user:password`. The password may have colons in it.
    ///
    /// # Errors
    /// The form that the text must have. The error does not show the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{ZOOKEEPER_AUTH} is not of the form user:password (its value is not shown); give both parts");
        let (name, password) = text.split_once(':').ok_or_else(wrong)?;
        let password = Secret::new(password.to_owned()).filter(|_| !name.is_empty()).ok_or_else(wrong)?;
        Ok(Self { name: name.to_owned(), password })
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    /// Reads a secret from a file with this content.
    fn in_file(content: &[u8]) -> Result<Option<Secret>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, content).unwrap();
        Secret::read(ADMIN_TOKEN, None, Some(file.path()))
    }

    #[test]
    fn a_secret_is_read_from_the_variable_or_from_the_file() {
        assert!(Secret::read(ADMIN_TOKEN, None, None).unwrap().is_none());
        let in_variable = Secret::read(ADMIN_TOKEN, Some("sesame\n".into()), None).unwrap().unwrap();
        assert_eq!(in_variable.expose(), "sesame\n");
        for (content, expected) in
            [("sesame", "sesame"), ("sesame\n", "sesame"), ("sesame\r\n", "sesame"), (" sesame\n\n", " sesame\n")]
        {
            assert_eq!(in_file(content.as_bytes()).unwrap().unwrap().expose(), expected, "{content:?}");
        }
    }

    #[test]
    fn an_empty_variable_is_one_that_is_not_set() {
        assert!(Secret::new(String::new()).is_none());
        assert!(Secret::read(ADMIN_TOKEN, Some(OsString::new()), None).unwrap().is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "sesame").unwrap();
        let in_file = Secret::read(ADMIN_TOKEN, Some(OsString::new()), Some(file.path())).unwrap().unwrap();
        assert_eq!(in_file.expose(), "sesame");
    }

    #[test]
    fn a_variable_and_a_file_at_once_are_refused() {
        let complaint = Secret::read(ADMIN_TOKEN, Some("sesame".into()), Some(Path::new("/token"))).unwrap_err();
        let expected = "ADMIN_TOKEN and --admin-token-file (ADMIN_TOKEN_FILE) are both given; leave one of them out";
        assert_eq!(complaint, expected);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let complaint = Secret::read(SERVICE_PASSWORD, None, Some(Path::new("/nowhere/password"))).unwrap_err();
        let expected = "cannot read /nowhere/password of --service-password-file (SERVICE_PASSWORD_FILE): No such file";
        assert!(complaint.starts_with(expected) && complaint.contains("that the service may read"), "{complaint}");
    }

    #[test]
    fn a_file_without_a_secret_is_refused() {
        for content in ["", "\n", "\r\n"] {
            let complaint = in_file(content.as_bytes()).unwrap_err();
            let expected = "of --admin-token-file (ADMIN_TOKEN_FILE) is empty; write the secret into it";
            assert!(complaint.contains(expected), "{content:?}: {complaint}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused_and_not_shown() {
        let wrong = b"sesame\xff".to_vec();
        let in_variable = Secret::read(ZOOKEEPER_AUTH, Some(OsString::from_vec(wrong.clone())), None).unwrap_err();
        assert!(in_variable.starts_with("ZOOKEEPER_AUTH is not valid UTF-8"), "{in_variable}");
        let in_file = in_file(&wrong).unwrap_err();
        for part in ["cannot read", "--admin-token-file (ADMIN_TOKEN_FILE)", "text in UTF-8"] {
            assert!(in_file.contains(part), "{part} in {in_file}");
        }
        assert!(!in_variable.contains("sesame") && !in_file.contains("sesame"), "{in_variable}, {in_file}");
    }

    #[test]
    fn a_secret_is_matched_whole_and_never_shown() {
        let secret = Secret::new("sesame".to_owned()).unwrap();
        assert!(secret.matches(b"sesame"));
        for wrong in ["", "sesam", "sesame ", "Sesame", "sesamesesame"] {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong:?}");
        }
        let user = ZooKeeperUser::parse("shop:sesame").unwrap();
        assert!(!format!("{secret:?} {user:?}").contains("sesame"));
    }

    #[test]
    fn a_user_is_a_name_and_a_password() {
        let user = ZooKeeperUser::parse("shop:open:sesame").unwrap();
        assert_eq!((&*user.name, user.password.expose()), ("shop", "open:sesame"));
    }

    #[test]
    fn what_is_no_user_is_refused_and_not_shown() {
        for wrong in ["sesame", ":sesame", "sesame:", ":"] {
            let complaint = ZooKeeperUser::parse(wrong).unwrap_err();
            assert!(complaint.contains("ZOOKEEPER_AUTH is not of the form user:password"), "{complaint}");
            assert!(!complaint.contains("sesame"), "{complaint}");
        }
    }
}
