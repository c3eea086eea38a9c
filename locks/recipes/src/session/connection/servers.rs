//! The servers of a connect string, parsed as the client library parses them.

use futures_util::future::join_all;

use crate::error::Error;

const TCP: &str = "tcp://";
const TCP_TLS: &str = "tcp+tls://";

/// The default port.
const PORT: u16 = 2181;

/// One server of a connect string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server<'a> {
    pub(crate) scheme: Option<&'static str>,
    /// The host, and the port if it was given, as written.
    pub(crate) address: &'a str,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
}

pub(crate) fn servers(connect_string: &str) -> impl Iterator<Item = Server<'_>> {
    connect_string.split(',').map(|server| {
        let scheme = [TCP, TCP_TLS].into_iter().find(|scheme| server.starts_with(scheme));
        let server = &server[scheme.map_or(0, str::len)..];
        let address = server.split('/').next().unwrap_or_default();
        let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => address.rsplit_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
        };
        Server { scheme, address, host, port: port.and_then(|port| port.parse().ok()).unwrap_or(PORT) }
    })
}

/// Rejects a connect string in which the scheme of a server contradicts the TLS setting of the session.
pub(crate) fn check_schemes(connect_string: &str, is_encrypted: bool) -> Result<(), Error> {
    let wrong = |server: Server<'_>| match server.scheme {
        Some(TCP) if is_encrypted => Some("tcp:// is without TLS, which the session is to speak with every server"),
        Some(TCP_TLS) if !is_encrypted => Some("tcp+tls:// needs the certificate of an authority to trust"),
        _ => None,
    };
    servers(connect_string).find_map(wrong).map_or(Ok(()), |reason| {
        Err(Error::InvalidConnectString { connect_string: connect_string.to_owned(), source: reason.into() })
    })
}

/// Returns a connect string for each server, with the common chroot.
pub(crate) fn one_by_one(connect_string: &str) -> Vec<String> {
    let chroot = chroot(connect_string);
    let servers = servers(connect_string);
    servers.map(|Server { scheme, address, .. }| format!("{}{address}{chroot}", scheme.unwrap_or_default())).collect()
}

/// Returns the chroot of a connect string, with its slash. Empty without a chroot.
fn chroot(connect_string: &str) -> &str {
    let last = connect_string.rsplit(',').next().unwrap_or_default();
    let after_scheme = servers(last).next().map_or(0, |server| server.scheme.map_or(0, str::len));
    last[after_scheme..].find('/').map_or("", |at| &last[after_scheme + at..])
}

/// Joins connect strings with the same chroot into one.
pub(crate) fn join(one_by_one: &[String]) -> String {
    let chroot = one_by_one.last().map_or("", |last| chroot(last));
    let servers: Vec<&str> = one_by_one.iter().map(|server| server.strip_suffix(chroot).unwrap_or(server)).collect();
    servers.join(",") + chroot
}

/// Tells whether any name of a connect string has an address. An address is its own name.
pub(crate) async fn any_resolves(connect_string: &str) -> bool {
    let look = async |server: Server<'_>| tokio::net::lookup_host((server.host, server.port)).await.is_ok();
    join_all(servers(connect_string).map(look)).await.contains(&true)
}

/// Returns a connect string for each address of a server. A name without an address stays as it is.
///
/// The client library gives all addresses of a name together the time of one address. So an address that does not answer would
/// hide the others.
pub(crate) async fn addresses(server: &str) -> Vec<String> {
    let chroot = chroot(server);
    let Some(Server { scheme, address, host, port }) = servers(server).next() else { return vec![server.to_owned()] };
    let forms = [host.to_owned(), format!("{host}:{port}"), format!("[{host}]"), format!("[{host}]:{port}")];
    // The client library rejects malformed addresses.
    let found = match forms.iter().any(|form| form == address) {
        true => tokio::net::lookup_host((host, port)).await.into_iter().flatten().collect(),
        false => Vec::new(),
    };
    match found[..] {
        [] => vec![server.to_owned()],
        _ => found.iter().map(|found| format!("{}{found}{chroot}", scheme.unwrap_or_default())).collect(),
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_protocol_are_refused() {
        for (servers, is_encrypted, is_good) in [
            ("tcp+tls://zoo.example", true, true),
            ("tcp://zoo.example", false, true),
            ("not a name", false, true),
            ("tcp://zoo.example", true, false),
            ("a,tcp+tls://zoo.example", false, false),
        ] {
            assert_eq!(check_schemes(servers, is_encrypted).is_ok(), is_good, "{servers} {is_encrypted}");
        }
    }

    #[test]
    fn servers_are_read_as_the_client_library_reads_them() {
        let read = |text| {
            let servers = servers(text).map(|server| (server.scheme, server.address, server.host, server.port));
            servers.collect::<Vec<_>>()
        };
        assert_eq!(
            read("a,tcp://b:1,tcp+tls://[::1]:2,[::2]/shop/till"),
            [
                (None, "a", "a", 2181),
                (Some(TCP), "b:1", "b", 1),
                (Some(TCP_TLS), "[::1]:2", "::1", 2),
                (None, "[::2]", "::2", 2181),
            ]
        );
    }

    #[test]
    fn each_server_has_a_connect_string_with_the_chroot_of_all() {
        assert_eq!(
            one_by_one("a,tcp://b:1,tcp+tls://[::1]:2/shop/till"),
            ["a/shop/till", "tcp://b:1/shop/till", "tcp+tls://[::1]:2/shop/till"]
        );
        assert_eq!(one_by_one("tcp://a:1"), ["tcp://a:1"]);
        assert_eq!(one_by_one("127.0.0.1:2181"), ["127.0.0.1:2181"]);
    }

    #[test]
    fn servers_that_were_taken_apart_are_joined_again() {
        for text in ["a,tcp://b:1,tcp+tls://[::1]:2/shop/till", "tcp://a:1", "127.0.0.1:2181,127.0.0.1:2182"] {
            assert_eq!(join(&one_by_one(text)), text);
        }
    }

    // L44
    #[tokio::test]
    async fn a_name_stands_for_all_of_its_addresses() {
        assert_eq!(addresses("127.0.0.1/shop").await, ["127.0.0.1:2181/shop"]);
        assert_eq!(addresses("[::1]:2/shop").await, ["[::1]:2/shop"]);
        assert_eq!(addresses("tcp://no.such.name.invalid:7/shop").await, ["tcp://no.such.name.invalid:7/shop"]);
        assert_eq!(addresses("localhost:99999").await, ["localhost:99999"], "no port is made up");
        let local = addresses("tcp://localhost:7/shop").await;
        assert!(local.contains(&"tcp://127.0.0.1:7/shop".to_owned()), "{local:?}");
    }

    #[tokio::test]
    async fn one_name_that_resolves_is_enough() {
        assert!(any_resolves("no.such.name.invalid,[::1]:2/shop").await);
        assert!(!any_resolves("no.such.name.invalid,tcp://nor.this.invalid:7/shop").await);
    }
}
