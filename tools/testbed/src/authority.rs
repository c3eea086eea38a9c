//! A certificate authority for one test.

use std::fs;
use std::path::{Path, PathBuf};

use program::FromSystem as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;
use uuid::Uuid;

use crate::Error;

/// A certificate and its key, each in a PEM file of the [`Authority`] that issued it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key, as PKCS #8.
    pub key: PathBuf,
}

/// A certificate authority of its own, which issues certificates for servers and clients. Its files are removed when it is
/// dropped.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), testbed::Error> {
/// use testbed::{Authority, Postgres, PostgresConfig};
///
/// let authority = Authority::create()?;
/// let tls = Some(authority.issue("127.0.0.1")?);
/// let postgres = Postgres::start(PostgresConfig { tls, ..PostgresConfig::default() }).await?;
/// let root = authority.certificate().display();
/// println!("{}?sslmode=verify-full&sslrootcert={root}", postgres.url("postgres"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    certificate: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority with a new key.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] when the key cannot be made; [`Error::System`] when the operating system refuses a folder.
    pub fn create() -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("seckill-testbed-").tempdir();
        let folder = folder.map_err(Error::system("create a temporary folder"))?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        // Each authority has a name of its own. Otherwise a client would take one for another, and find a wrong signature.
        params.distinguished_name.push(DnType::CommonName, format!("testbed {}", Uuid::new_v4()));
        let issuer = KeyPair::generate().and_then(|key| CertifiedIssuer::self_signed(params, key));
        let issuer = issuer.map_err(Error::Certificate)?;
        let certificate = folder.path().join("authority.pem");
        write(&certificate, &issuer.pem())?;
        Ok(Self { folder, certificate, issuer })
    }

    /// Returns the file with the authority's own certificate, which its clients trust.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Issues a certificate for a host name or an address. It proves a client as well as a server.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] when `host` is neither; [`Error::System`] when a file cannot be written.
    pub fn issue(&self, host: &str) -> Result<Identity, Error> {
        let mut params = CertificateParams::new([host.to_owned()]).map_err(Error::Certificate)?;
        params.distinguished_name.push(DnType::CommonName, host);
        let key = KeyPair::generate().map_err(Error::Certificate)?;
        let issued = params.signed_by(&key, &self.issuer).map_err(Error::Certificate)?;
        // A server that still runs may use the files of an earlier identity of the same host.
        let name = Uuid::new_v4().simple().to_string();
        let path = |extension| self.folder.path().join(&name).with_extension(extension);
        let identity = Identity { certificate: path("pem"), key: path("key") };
        write(&identity.certificate, &issued.pem())?;
        write(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }
}

impl Identity {
    /// Reads both files.
    pub(crate) fn read(&self) -> Result<[String; 2], Error> {
        Ok([read(&self.certificate)?, read(&self.key)?])
    }
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::system(format!("read {}", path.display())))
}

fn write(path: &Path, content: &str) -> Result<(), Error> {
    fs::write(path, content).map_err(Error::system(format!("write {}", path.display())))
}
