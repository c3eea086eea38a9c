//! The stand-in for `tls` without the feature `tls`. Its types have no values, so no session uses TLS.

use std::io;

use zookeeper_client::{Client, Connector, Error as ClientError};

use crate::error::Error;
use crate::session::connection::servers::Server;

#[derive(Debug)]
pub(crate) enum Tls {}

#[derive(Clone, Debug)]
pub(crate) enum Encryption {}

impl Tls {
    pub(crate) fn encryption(&self, _: &str) -> Result<Encryption, Error> {
        match *self {}
    }

    pub(crate) async fn diagnose(&self, _: &str) -> Option<Error> {
        match *self {}
    }

    pub(crate) async fn greet(&self, _: &Server<'_>) -> io::Result<()> {
        match *self {}
    }
}

impl Encryption {
    pub(crate) async fn connect(&self, _: Connector, _: &str) -> Result<Client, ClientError> {
        match *self {}
    }
}
