//! The servers of a connect string, read as the client library reads them.

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
    let last = connect_string.rsplit(',').next().unwrap_or_default();
    let after_scheme = servers(last).next().map_or(0, |server| server.scheme.map_or(0, str::len));
    let chroot = last[after_scheme..].find('/').map_or("", |at| &last[after_scheme + at..]);
    let servers = servers(connect_string);
    servers.map(|Server { scheme, address, .. }| format!("{}{address}{chroot}", scheme.unwrap_or_default())).collect()
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
}
