//! What is taken from the environment only, as command lines are seen by everybody on a machine, and never shown.

use std::env::{self, VarError};
use std::fmt;

/// The environment variable with the password that the role of the service gets.
pub const SERVICE_PASSWORD: &str = "SERVICE_PASSWORD";
/// The environment variable with what the service proves itself with to ZooKeeper.
pub const ZOOKEEPER_AUTH: &str = "ZOOKEEPER_AUTH";

/// A password. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret, or `None` when `text` is empty: an empty variable is one that is not set.
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then_some(Self(text))
    }

    /// Takes a secret from an environment variable.
    ///
    /// # Errors
    /// What is wrong with the variable, without its value.
    pub fn from_env(variable: &str) -> Result<Option<Self>, String> {
        match env::var(variable) {
            Ok(text) => Ok(Self::new(text)),
            Err(VarError::NotPresent) => Ok(None),
            // Taken for a variable that is not set, it would leave open what it should close.
            Err(VarError::NotUnicode(_)) => Err(format!("{variable} is not valid UTF-8")),
        }
    }

    /// The text itself, to be handed to whoever checks it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The user that the service is in ZooKeeper, and only who knows its password may use its locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperUser {
    /// The name, which ACLs show.
    pub name: String,
    /// The password.
    pub password: Secret,
}

impl ZooKeeperUser {
    /// Takes the user from [`ZOOKEEPER_AUTH`].
    ///
    /// # Errors
    /// What is wrong with the variable, without its value.
    pub fn from_env() -> Result<Option<Self>, String> {
        Secret::from_env(ZOOKEEPER_AUTH)?.map(|text| Self::parse(text.expose())).transpose()
    }

    /// Reads `user:password`. The password may have colons in it.
    ///
    /// # Errors
    /// What form it must have, without the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{ZOOKEEPER_AUTH} is not of the form user:password (its value is not shown)");
        let (name, password) = text.split_once(':').ok_or_else(wrong)?;
        let password = Secret::new(password.to_owned()).filter(|_| !name.is_empty()).ok_or_else(wrong)?;
        Ok(Self { name: name.to_owned(), password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_secret_is_never_shown_and_an_empty_one_is_none() {
        let user = ZooKeeperUser::parse("shop:sesame").unwrap();
        assert!(!format!("{user:?}").contains("sesame"));
        assert_eq!(Secret::new(String::new()), None);
    }
}
