//! The database that cannot be used, in words for the operator.

use std::io::ErrorKind;

use sqlx::postgres::PgConnectOptions;

use crate::setup_error::SetupError;

/// Returns the error of a failed connection or statement. An encryption that failed has a remedy of its own.
pub(super) fn unusable(options: &PgConnectOptions, source: sqlx::Error) -> SetupError {
    let address = address(options);
    let is_tls = match &source {
        sqlx::Error::Tls(_) => true,
        // The handshake failed (`InvalidData`), or a certificate was not found (`NotFound`): a connection to a port
        // reads no other file.
        sqlx::Error::Io(error) => {
            error.kind() == ErrorKind::InvalidData || (error.kind() == ErrorKind::NotFound && !is_local(options))
        }
        _ => false,
    };
    if is_tls { SetupError::DatabaseTls { address, source } } else { SetupError::Database { address, source } }
}

/// Returns whether the server is reached by a socket in the file system.
fn is_local(options: &PgConnectOptions) -> bool {
    options.get_socket().is_some() || options.get_host().starts_with('/')
}

/// Returns host, port and name of a database, and never its password.
pub(super) fn address(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}
