//! Connect strings, as a user may write them.

use super::{PORT, TCP, TCP_TLS, check_schemes, chroot, join, one_by_one, servers};

/// The host, the port and whether TLS is asked for, as the client library reads a server. `None` if it refuses the server.
fn by_the_library(server: &str) -> Option<(&str, u16, Option<bool>)> {
    let (address, tls) = match (server.strip_prefix(TCP), server.strip_prefix(TCP_TLS)) {
        (Some(address), _) => (address, Some(false)),
        (_, Some(address)) => (address, Some(true)),
        _ => (server, None),
    };
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.rsplit_once(']')?;
            (host, if behind.is_empty() { "" } else { behind.strip_prefix(':')? })
        }
        None => address.rsplit_once(':').unwrap_or((address, "")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port > 0)? };
    (!host.is_empty()).then_some((host, port, tls))
}

// L91
#[test]
fn servers_are_found_as_the_client_library_finds_them() {
    fuzz::any_text("connect-strings", |text| {
        let (all, last) = text.rsplit_once(',').map_or(("", text), |(all, last)| (all, last));
        let chroot = chroot(text);
        assert!(text.ends_with(chroot) && (chroot.is_empty() || chroot.starts_with('/')), "{text:?}");
        assert!(chroot.len() <= last.len(), "the chroot is one of the last server");
        // The library takes a slash before the last server for a part of a name, which leads nowhere.
        let has_slash = |server: &str| {
            let address = [TCP, TCP_TLS].iter().find_map(|scheme| server.strip_prefix(scheme)).unwrap_or(server);
            address.contains('/')
        };
        if all.split(',').any(has_slash) {
            return;
        }
        assert_eq!(join(&one_by_one(text)), text);
        let bare = &text[..text.len() - chroot.len()];
        let Some(found) = bare.split(',').map(by_the_library).collect::<Option<Vec<_>>>() else { return };
        let tls = |scheme: Option<&str>| scheme.map(|scheme| scheme == TCP_TLS);
        let read: Vec<_> = servers(text).map(|server| (server.host, server.port, tls(server.scheme))).collect();
        assert_eq!(read, found, "{text:?}");
        for is_encrypted in [false, true] {
            let agrees = found.iter().all(|(_, _, tls)| tls.is_none_or(|tls| tls == is_encrypted));
            assert_eq!(check_schemes(text, is_encrypted).is_ok(), agrees, "{text:?}");
        }
    });
}
