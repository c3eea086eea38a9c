//! How the configuration reaches ZooKeeper and Redis.

use std::fs;
use std::path::Path;

use zk_recipes::{Acl, Auth, SessionConfig, Tls};

use super::Config;
use crate::redis_store::RedisServer;
use crate::setup_error::SetupError;

impl Config {
    /// Returns the configuration of the ZooKeeper sessions. With a ZooKeeper user, only that user may use the locks.
    /// Without one, everybody who reaches the servers may use them.
    ///
    /// # Errors
    /// [`SetupError::TlsFile`] when a file for TLS cannot be read.
    pub fn session_config(&self) -> Result<SessionConfig, SetupError> {
        let timeout = self.zk_session_timeout;
        let mut config = SessionConfig::default().with_timeout(timeout).with_connect_within(timeout);
        config.tls = self.tls()?;
        Ok(match &self.zookeeper_user {
            Some(user) => config.with_auth(Auth::digest(&user.name, user.password.expose())).with_acl(Acl::creator()),
            None => config,
        })
    }

    fn tls(&self) -> Result<Option<Tls>, SetupError> {
        let Some(authority) = &self.zookeeper_ca else { return Ok(None) };
        let tls = Tls::trusting(read("--zookeeper-ca (ZOOKEEPER_CA)", authority)?);
        let Some((certificate, key)) = self.zookeeper_cert.as_ref().zip(self.zookeeper_key.as_ref()) else {
            return Ok(Some(tls));
        };
        let certificate = read("--zookeeper-cert (ZOOKEEPER_CERT)", certificate)?;
        Ok(Some(tls.with_identity(certificate, read("--zookeeper-key (ZOOKEEPER_KEY)", key)?)))
    }

    /// Returns the server of Redis, if the service has one.
    ///
    /// # Errors
    /// [`SetupError::TlsFile`] and [`SetupError::RedisUrl`].
    pub fn redis_server(&self) -> Result<Option<RedisServer>, SetupError> {
        let Some(url) = &self.redis else { return Ok(None) };
        let authority = self.redis_ca.as_ref().map(|file| read("--redis-ca (REDIS_CA)", file)).transpose()?;
        RedisServer::parse(url, authority).map(Some).map_err(SetupError::RedisUrl)
    }
}

fn read(setting: &'static str, path: &Path) -> Result<String, SetupError> {
    fs::read_to_string(path).map_err(|source| SetupError::TlsFile { setting, path: path.to_owned(), source })
}
