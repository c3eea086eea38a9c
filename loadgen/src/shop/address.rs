//! The addresses of a shop. Requests go to them and nowhere else.

use std::net::IpAddr;

use reqwest::Url;

use super::noted::Noted;

/// The value that begins a URL.
const BEGINNING: &str = "{{url}}";

/// Reads a base URL.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let example = "write one such as http://127.0.0.1:8000";
    if text.contains("{{") {
        return Err(format!("{text:?} has a value in it, and the addresses of a load are written out; {example}"));
    }
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no base URL: {error}; {example}"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(format!("{text:?} is no base URL of HTTP or HTTPS; {example}"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("the base URL {text:?} has a query or a fragment; write them in the requests"));
    }
    if has_user(&url) {
        return Err("a base URL has a user in it; write curl --user name:password in the requests".to_owned());
    }
    Ok(url)
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the base URL as the value `{{url}}` has it, without a slash at its end.
pub(super) fn value(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Returns the scheme, the host and the port of a URL, as `http://127.0.0.1:8000`.
pub(super) fn address(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Checks that a URL of a request leads to one of the shop's addresses. Returns the URL with its scheme.
pub(super) fn allowed(url: &str, shop: &[Url]) -> Result<String, String> {
    if let Some(rest) = url.strip_prefix(BEGINNING) {
        return if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
            Ok(url.to_owned())
        } else {
            Err(format!(
                "{url} has another text between {BEGINNING} and its path, which may change the host; write a / there"
            ))
        };
    }
    // As for curl, http is the default.
    let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let (scheme, rest) = whole.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains("{{") || scheme.contains("{{") {
        return Err(format!("the host of {url} is a value, and may be any host; begin the URL with {BEGINNING}"));
    }
    let found = Url::parse(&format!("{scheme}://{authority}")).map_err(|error| format!("{url} is no URL: {error}"))?;
    if has_user(&found) {
        return Err(format!("the URL of {} has a user in it; write --user name:password", address(&found)));
    }
    if shop.iter().any(|shop| shop.origin() == found.origin()) {
        return Ok(whole);
    }
    let known: Vec<_> = shop.iter().map(address).collect();
    Err(format!(
        "{} is no address of this shop, and a load goes only to {}; begin the URL with {BEGINNING}, or add the address to \
         urls in [shop]",
        address(&found),
        known.join(" and ")
    ))
}

/// Tells whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        // Servers print 0.0.0.0 as their address. A connection to it goes to this machine.
        Ok(address) => address.to_canonical().is_loopback() || address.is_unspecified(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

/// Reads the base URLs of a shop.
pub(super) fn base_urls(texts: &[Noted<String>]) -> Result<Vec<Url>, String> {
    texts.iter().map(|text| text.read(|text| base_url(text))).collect()
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Vec<Url> {
        ["http://127.0.0.1:8000", "https://shop.example/api"].map(|url| base_url(url).unwrap()).to_vec()
    }

    #[test]
    fn a_request_goes_to_an_address_of_the_shop() {
        for (url, expected) in [
            ("{{url}}", "{{url}}"),
            ("{{url}}/buy/{{sku}}?a={{b}}", "{{url}}/buy/{{sku}}?a={{b}}"),
            ("{{url}}?a=b", "{{url}}?a=b"),
            ("http://127.0.0.1:8000/a", "http://127.0.0.1:8000/a"),
            ("127.0.0.1:8000/a", "http://127.0.0.1:8000/a"),
            ("https://SHOP.example:443/other", "https://SHOP.example:443/other"),
        ] {
            assert_eq!(allowed(url, &shop()).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_request_to_another_address_is_refused() {
        for (url, expected) in [
            ("http://127.0.0.1:8001/a", "http://127.0.0.1:8001 is no address of this shop"),
            ("https://127.0.0.1:8000/a", "is no address of this shop"),
            ("http://shop.example/api", "is no address of this shop"),
            ("{{url}}.evil.example/", "has another text between {{url}} and its path"),
            ("{{url}}@evil.example/", "has another text between"),
            ("{{url}}:81/", "has another text between"),
            ("{{url}}{{path}}", "has another text between"),
            ("{{other}}/a", "the host of {{other}}/a is a value"),
            ("http://{{host}}/a", "is a value, and may be any host"),
            ("http://127.0.0.1:{{port}}/", "is a value"),
            ("http://127.0.0.1:8000@evil.example/", "has a user in it"),
            ("http://evil.example\\@127.0.0.1:8000/", "http://evil.example is no address"),
            ("http://127.0.0.1:8000\t.evil.example/", "is no URL"),
            ("ftp://127.0.0.1:8000/", "is no address of this shop"),
        ] {
            let refused = allowed(url, &shop()).unwrap_err();
            assert!(refused.contains(expected), "{url}: {refused}");
        }
    }

    #[test]
    fn a_base_url_is_an_address_that_is_written_out() {
        for (url, expected) in [
            ("127.0.0.1:8000", "is no base URL"),
            ("localhost:8000", "is no base URL of HTTP"),
            ("ftp://a/", "is no base URL of HTTP"),
            ("http://a/?b=c", "has a query or a fragment"),
            ("http://me:secret@a/", "a base URL has a user in it; write curl --user"),
            ("{{env.SHOP}}", "the addresses of a load are written out"),
        ] {
            let refused = base_url(url).unwrap_err();
            assert!(refused.contains(expected) && !refused.contains("secret"), "{url}: {refused}");
        }
        assert_eq!(value(&base_url("http://a:80/api/").unwrap()), "http://a/api");
    }

    #[test]
    fn this_machine_has_several_names() {
        for host in ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "a.localhost", "0.0.0.0", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1", "example.com", "localhost.example.com", "[2001:db8::1]", "127.0.0.1.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
