//! The servers of a connect string, read as the client library reads them.

use std::time::Duration;

pub(crate) const TCP: &str = "tcp://";
pub(crate) const TCP_TLS: &str = "tcp+tls://";

/// The port of a server that is given without one.
const PORT: u16 = 2181;

/// One server of a connect string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server<'a> {
    pub(crate) scheme: Option<&'static str>,
    /// The host and the port as they were given.
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

/// A connect string for each of the servers, with the chroot that all of them have.
pub(crate) fn one_by_one(connect_string: &str) -> Vec<String> {
    let chroot = chroot(connect_string);
    let servers = servers(connect_string);
    servers.map(|Server { scheme, address, .. }| format!("{}{address}{chroot}", scheme.unwrap_or_default())).collect()
}

/// The chroot of a connect string, with its slash.
fn chroot(connect_string: &str) -> &str {
    let last = connect_string.rsplit(',').next().unwrap_or_default();
    let after_scheme = servers(last).next().map_or(0, |server| server.scheme.map_or(0, str::len));
    last[after_scheme..].find('/').map_or("", |at| &last[after_scheme + at..])
}

/// The same servers, each by all of its addresses. The client library gives all addresses of a name together the time of one,
/// so one that does not answer would hide the others. A name without an answer within the time is left as it is.
pub(crate) async fn resolve(connect_string: &str, within: Duration) -> String {
    let mut resolved = Vec::new();
    for Server { scheme, address, host, port } in servers(connect_string) {
        let scheme = scheme.unwrap_or_default();
        let read_in_full = [host.to_owned(), format!("{host}:{port}"), format!("[{host}]"), format!("[{host}]:{port}")];
        let before = resolved.len();
        // What is malformed is for the client library to refuse.
        if read_in_full.iter().any(|read| read == address) {
            let found = tokio::time::timeout(within, tokio::net::lookup_host((host, port))).await;
            resolved.extend(found.into_iter().flatten().flatten().map(|found| format!("{scheme}{found}")));
        }
        if resolved.len() == before {
            resolved.push(format!("{scheme}{address}"));
        }
    }
    resolved.join(",") + chroot(connect_string)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[tokio::test]
    async fn a_name_stands_for_all_of_its_addresses_and_stays_if_it_has_none() {
        let soon = Duration::from_secs(20);
        assert_eq!(resolve("127.0.0.1,[::1]:2/shop", soon).await, "127.0.0.1:2181,[::1]:2/shop");
        assert_eq!(resolve("tcp://no.such.name.invalid:7/shop", soon).await, "tcp://no.such.name.invalid:7/shop");
        assert_eq!(resolve("localhost:99999", soon).await, "localhost:99999", "no port is made up");
        let local = resolve("tcp://localhost:7/shop", soon).await;
        assert!(local.contains("tcp://127.0.0.1:7") && local.ends_with(":7/shop"), "{local}");
    }
}
