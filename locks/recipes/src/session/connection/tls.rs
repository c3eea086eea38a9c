//! Encrypted connections to servers that prove their identity.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use zookeeper_client::{Client, Connector, Error as ClientError, TlsOptions};

use crate::error::Error;
use crate::session::connection::servers::{Server, servers};

/// Upper bound of the time to diagnose the handshake with one server.
const DIAGNOSE_WITHIN: Duration = Duration::from_secs(2);

/// The TLS settings of a session. They apply to all of its servers. Each server must have a certificate of the authority for the
/// host that the connect string names.
///
/// If the process has no default cryptography provider for rustls, the first session with TLS installs aws-lc-rs for the whole
/// process. To use another provider, call its `install_default` earlier.
///
/// ```
/// use zk_recipes::{SessionConfig, Tls};
///
/// # fn example() -> std::io::Result<SessionConfig> {
/// let authority = std::fs::read_to_string("authority.pem")?;
/// let (certificate, key) = (std::fs::read_to_string("shop.pem")?, std::fs::read_to_string("shop.key")?);
/// let tls = Tls::trusting(authority).with_identity(certificate, key);
/// # Ok(
/// SessionConfig::default().with_tls(tls)
/// # )
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    authority: String,
    identity: Option<Identity>,
}

#[derive(Clone, PartialEq, Eq)]
struct Identity {
    certificate: String,
    key: String,
}

/// The settings in the form of the client library.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    options: TlsOptions,
}

impl Tls {
    /// Returns settings that trust servers with a certificate of this authority. `authority`: the authority's own certificate as
    /// PEM. It may contain several certificates, to trust several authorities.
    #[must_use]
    pub fn trusting(authority: impl Into<String>) -> Self {
        Self { authority: authority.into(), identity: None }
    }

    /// Sets the certificate and the private key that prove the identity of the session, both as PEM. `certificate` also contains
    /// the certificates that lead to its authority. Servers require a client certificate, unless they are configured otherwise.
    #[must_use]
    pub fn with_identity(self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        Self { identity: Some(Identity { certificate: certificate.into(), key: key.into() }), ..self }
    }

    /// Checks all settings, and converts them for the client library. The library would keep trying with some invalid settings.
    pub(crate) fn encryption(&self, connect_string: &str) -> Result<Encryption, Error> {
        self.client_config()?;
        check_hosts(connect_string)?;
        // The client library uses the provider of the process. If none is installed and several are compiled in, it panics.
        if CryptoProvider::get_default().is_none() {
            aws_lc_rs::default_provider().install_default().ok();
        }
        let options = TlsOptions::new().with_pem_ca(&self.authority).map_err(invalid("authority"))?;
        let options = match &self.identity {
            None => options,
            Some(Identity { certificate, key }) => {
                options.with_pem_identity(certificate, key).map_err(invalid("identity"))?
            }
        };
        Ok(Encryption { options })
    }

    fn client_config(&self) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority).map_err(invalid("authority"))? {
            roots.add(certificate).map_err(invalid("authority"))?;
        }
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(invalid("protocol"))?
            .with_root_certificates(roots);
        let Some(Identity { certificate, key }) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let certificates = certificates(certificate).map_err(invalid("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(invalid("key"))?;
        builder.with_client_auth_cert(certificates, key).map_err(invalid("key"))
    }

    /// Shakes hands with one server after another, and returns the first TLS error. `None` if there was none. The client library
    /// reports only that it reached no server.
    pub(crate) async fn diagnose(&self, connect_string: &str) -> Option<Error> {
        for server in servers(connect_string) {
            let tried = tokio::time::timeout(DIAGNOSE_WITHIN, self.greet(&server)).await;
            let Ok(Err(error)) = tried else { continue };
            if let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
                let server = server.address.to_owned();
                let cause = cause.clone().into();
                return Some(Error::TlsRefused { server, source: cause });
            }
        }
        None
    }

    /// Shakes hands with a server, and sends the command `isro`. A server that refuses our certificate may say so only after the
    /// handshake.
    pub(crate) async fn greet(&self, server: &Server<'_>) -> io::Result<()> {
        let connector = TlsConnector::from(Arc::new(self.client_config().map_err(io::Error::other)?));
        let name = ServerName::try_from(server.host.to_owned()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((server.host, server.port)).await?;
        let mut stream = connector.connect(name, stream).await?;
        stream.write_all(b"isro").await?;
        stream.read_u8().await.map(drop)
    }
}

impl Encryption {
    /// Connects to one of the servers.
    pub(crate) async fn connect(&self, connector: Connector, servers: &str) -> Result<Client, ClientError> {
        connector.with_tls(self.options.clone()).secure_connect(servers).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("has_identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// Rejects a connect string with a host that no certificate can name.
fn check_hosts(connect_string: &str) -> Result<(), Error> {
    if servers(connect_string).all(|server| ServerName::try_from(server.host).is_ok()) {
        return Ok(());
    }
    let source = "a host is neither a name nor an address, so that no certificate can be for it".into();
    Err(Error::InvalidConnectString { connect_string: connect_string.to_owned(), source })
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Box<dyn std::error::Error + Send + Sync>> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err("there is no certificate in it".into()) } else { Ok(found) }
}

fn invalid<E: Into<Box<dyn std::error::Error + Send + Sync>>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::InvalidTls { what, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_no_certificate_can_be_for_is_refused() {
        let refused = |servers: &str| check_hosts(servers).is_err();
        assert!(!refused("zoo.example:1,[::1]:2,tcp+tls://127.0.0.1/shop"));
        assert!(refused("not a name"));
        assert!(refused("a,-b-:1"));
    }

    #[test]
    fn settings_that_can_never_work_are_told_apart() {
        let unreadable = Tls::trusting("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n");
        for (tls, part) in [(Tls::trusting("hope"), "no certificate"), (unreadable, "authority")] {
            let error = format!("{:?}", tls.encryption("a").err());
            assert!(error.contains(part), "{error}");
        }
        let tls = Tls::trusting("").with_identity("", "the key");
        assert!(!format!("{tls:?}").contains("the key"));
    }
}
