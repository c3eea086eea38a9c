//! Lines of curl as manuals and browsers write them.

use std::fs;

use tempfile::TempDir;

use super::*;

fn request(line: &str) -> CurlRequest {
    read(line, Path::new("")).unwrap()
}

fn refusal(line: &str) -> String {
    read(line, Path::new("")).unwrap_err()
}

fn header<'a>(request: &'a CurlRequest, name: &str) -> Option<&'a str> {
    let found = request.headers.iter().find(|(found, _)| found.as_str() == name);
    found.map(|(_, value)| value.as_str())
}

fn text(request: &CurlRequest) -> &str {
    match &request.body {
        CurlBody::Text(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

#[test]
fn a_method_follows_from_the_options() {
    for (line, method) in [
        ("curl http://a/", Method::GET),
        ("curl -X POST http://a/", Method::POST),
        ("curl -XDELETE http://a/", Method::DELETE),
        ("/usr/bin/curl --request PATCH --url http://a/", Method::PATCH),
        ("curl http://a/ -d b=c", Method::POST),
        ("curl http://a/ -F b=c", Method::POST),
        ("curl -X PUT http://a/ -d b=c", Method::PUT),
        ("curl -G http://a/ -d b=c", Method::GET),
        ("curl -I http://a/", Method::HEAD),
        ("curl -X GET -X PUT http://a/", Method::PUT),
    ] {
        assert_eq!(request(line).method, method, "{line}");
    }
}

#[test]
fn data_are_joined_in_the_order_of_the_line() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("body"), "a\r\nb\n").unwrap();
    for (options, expected) in [
        ("-d a=1 --data-raw @b -d c=3", "a=1&@b&c=3"),
        ("--data-ascii @body", "ab"),
        ("--data-binary @body --data x", "a\r\nb\n&x"),
        ("--data-urlencode 'a=b c&d' --data-urlencode =ü -d e", "a=b+c%26d&%C3%BC&e"),
        ("--data-urlencode n@body --data-urlencode 'x y'", "n=a%0D%0Ab%0A&x+y"),
        ("-d '' -d a", "a"),
        ("-d -1", "-1"),
        ("--json '{\"a\":' --json '{{number}}}'", "{\"a\":{{number}}}"),
    ] {
        let request = read(&format!("curl http://a/ {options}"), folder.path()).unwrap();
        assert_eq!(text(&request), expected, "{options}");
    }
}

#[test]
fn a_body_has_the_content_type_of_curl_unless_named() {
    let form = request("curl http://a/ -d b=c");
    assert_eq!(header(&form, "content-type"), Some("application/x-www-form-urlencoded"));
    let json = request("curl http://a/ --json '{}'");
    assert_eq!(header(&json, "content-type"), Some("application/json"));
    assert_eq!(header(&json, "accept"), Some("application/json"));
    let named = request("curl http://a/ -d '{}' -H 'content-type: text/json' -H 'Accept;'");
    assert_eq!(header(&named, "content-type"), Some("text/json"));
    assert_eq!(header(&named, "accept"), Some(""));
    let removed = request("curl http://a/ -d '{}' -H 'Content-Type:'");
    assert_eq!(header(&removed, "content-type"), None);
}

#[test]
fn data_of_get_stand_in_the_url() {
    for (url, expected) in
        [("http://a/", "http://a/?b=c&d"), ("http://a/?x#f", "http://a/?x&b=c&d"), ("http://a/?", "http://a/?b=c&d")]
    {
        let request = request(&format!("curl -G '{url}' -d b=c -d d"));
        assert_eq!((request.url.as_str(), &request.body), (expected, &CurlBody::Empty));
        assert_eq!(header(&request, "content-type"), None);
    }
}

#[test]
fn a_form_has_texts_and_files() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("note.txt"), "a note").unwrap();
    fs::write(folder.path().join("data"), "bytes").unwrap();
    let line = "curl http://a/ -H 'Content-Type: multipart/form-data' -F 'buyer={{number}}' -F 'f=@note.txt' \
                -F 'g=@\"data\";filename=\"b;c\";type=text/csv' -F 't=a;b;type=text/plain'";
    let request = read(line, folder.path()).unwrap();
    let part = |name: &str, value: &str, file_name: Option<&str>, mime: Option<&str>| CurlPart {
        name: name.to_owned(),
        value: value.to_owned(),
        file_name: file_name.map(str::to_owned),
        mime: mime.map(str::to_owned),
    };
    let expected = vec![
        part("buyer", "{{number}}", None, None),
        part("f", "a note", Some("note.txt"), Some("text/plain")),
        part("g", "bytes", Some("b;c"), Some("text/csv")),
        part("t", "a;b", None, Some("text/plain")),
    ];
    assert_eq!(request.body, CurlBody::Form(expected));
    assert_eq!(header(&request, "content-type"), None, "the client writes it with the boundary");
}

#[test]
fn headers_are_also_named_by_other_options() {
    let request = request(
        "curl http://a/ -A shopper -e 'http://b/;auto' -b 'a=1' --cookie b=2 -u me:secret -m 2.5 -L -H 'User-Agent: own'",
    );
    assert_eq!(header(&request, "user-agent"), Some("own"));
    assert_eq!(header(&request, "referer"), Some("http://b/"));
    assert_eq!(header(&request, "cookie"), Some("a=1; b=2"));
    assert_eq!(request.user.as_deref(), Some("me:secret"));
    assert_eq!(request.within, Some(Duration::from_millis(2500)));
    assert!(request.follows);
}

#[test]
fn options_about_the_output_change_nothing() {
    let line = "curl -sSivf -o /dev/null -w '%{http_code}\\n' --compressed -# -N --globoff http://a/";
    let request = request(line);
    assert_eq!((request.method, request.url.as_str(), request.headers.len()), (Method::GET, "http://a/", 0));
}

// As Chrome 142 copies it by "Copy as cURL (bash)".
#[test]
fn a_copy_of_chrome_is_read() {
    let line = r#"curl 'http://127.0.0.1:8000/voucher-order/seckill/10' \
  -X 'POST' \
  -H 'Accept: application/json, text/plain, */*' \
  -H 'Accept-Language: en-US,en;q=0.9' \
  -H 'Connection: keep-alive' \
  -H 'Content-Length: 0' \
  -b 'JSESSIONID=0A1B; theme="dark"' \
  -H 'Origin: http://127.0.0.1:8000' \
  -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/142.0.0.0' \
  -H 'authorization: 7f3c' \
  -H 'sec-ch-ua: "Chromium";v="142", "Not_A Brand";v="99"' \
  --data-raw $'{"note":"it\'s \u0021 caf\u00e9\\n"}' \
  --insecure"#;
    assert!(refusal(line).starts_with("curl's --insecure is not supported: a load that trusts"));
    let request = request(line.trim_end_matches(" \\\n  --insecure"));
    assert_eq!(request.method, Method::POST);
    assert_eq!(text(&request), r#"{"note":"it's ! café\n"}"#);
    assert_eq!(header(&request, "cookie"), Some("JSESSIONID=0A1B; theme=\"dark\""));
    assert_eq!(header(&request, "authorization"), Some("7f3c"));
    let of_the_client = ["connection", "content-length"].map(|name| header(&request, name));
    assert_eq!(of_the_client, [None, None]);
}

// As Firefox 145 copies it by "Copy as cURL (POSIX)".
#[test]
fn a_copy_of_firefox_is_read() {
    let line = "curl 'http://127.0.0.1:8000/buy?a=%5B1%5D' --compressed -X POST -H 'User-Agent: Mozilla/5.0' \
                -H 'Accept: */*' -H 'Accept-Language: de,en-US;q=0.7' -H 'Accept-Encoding: gzip, deflate, br, zstd' \
                -H 'Content-Type: application/json' -H 'Host: 127.0.0.1:8000' -H 'Connection: keep-alive' \
                -H 'Cookie: sid=1' -H 'Priority: u=0' -H 'TE: trailers' --data-raw $'{\"a\":\"b\\u2019\"}'";
    let request = request(line);
    assert_eq!(text(&request), "{\"a\":\"b\u{2019}\"}");
    let names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["user-agent", "accept", "accept-language", "content-type", "host", "cookie", "priority"];
    assert_eq!(names, expected);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let unsupported = refusal("curl --proxy http://p:1 http://a/");
    let expected = "curl's --proxy is not supported; supported are --url, --request, --header, --data, ";
    assert!(unsupported.starts_with(expected), "{unsupported}");
    assert!(!unsupported.contains("--insecure") && !unsupported.contains("--silent"), "{unsupported}");
    for (line, expected) in [
        ("curl -x http://p:1 http://a/", "curl's -x is not supported; supported are"),
        ("curl -sT file http://a/", "curl's -T is not supported"),
        ("curl --form-string a=b http://a/", "curl's --form-string is not supported"),
        ("curl -k http://a/", "name the certificate of the shop by `certificate` in [shop]"),
        ("curl -b jar.txt http://a/", "curl's --cookie jar.txt names a file"),
        ("curl -F a=<b http://a/", "a shell reads < as a command"),
        ("curl -F 'a=<b' http://a/", "curl's --form with < is not supported"),
        ("curl -F 'a=b;headers=x' http://a/", "curl's --form with ;headers=x is not supported"),
        ("curl -H @file http://a/", "curl's --header @file names a file"),
        ("curl --data-urlencode 'a={{b}}' http://a/", "cannot encode a value that is filled in later; write --data"),
        ("curl -d @- http://a/", "curl's @- reads standard input"),
    ] {
        let refused = refusal(line);
        assert!(refused.contains(expected), "{line}: {refused}");
    }
}

#[test]
fn a_wrong_line_is_refused_with_the_remedy() {
    for (line, expected) in [
        ("", "a request is empty; write curl and a URL"),
        ("wget http://a/", "this one begins with wget; write curl"),
        ("curl -X POST", "the line of curl has no URL"),
        ("curl http://a/ http://b/", "several URLs, http://a/ and http://b/; write one line a request"),
        ("curl 'http://a/[1-3]'", "curl expands the brackets in http://a/[1-3]"),
        ("curl '{{url}}/{a,b}'", "curl expands the brackets in {{url}}/{a,b}"),
        ("curl http://a/ -X", "the line of curl cannot be read: a value is required for '--request <REQUEST>'"),
        ("curl http://a/ -X 'A B'", "\"A B\" is no method of HTTP"),
        ("curl http://a/ -m 0", "curl's --max-time 0 is no time"),
        ("curl http://a/ -u me", "curl's --user asks for a password; write name:password"),
        ("curl http://a/ -H abc", "curl's --header \"abc\" has no colon; write 'Name: value'"),
        ("curl http://a/ -H 'a b: c'", "\"a b\" is no name of a header"),
        ("curl http://a/ -H $'a: b\\nc'", "the header a has a control character"),
        ("curl http://a/ -b $'a=b\\nc'", "the header cookie has a control character"),
        ("curl http://a/ -A $'a\\nb'", "the header user-agent has a control character"),
        ("curl http://a/ -e $'a\\nb'", "the header referer has a control character"),
        ("curl http://a/ -F a", "curl's --form \"a\" has no ="),
        ("curl http://a/ -F a=b -d c", "curl sends either --form or --data"),
        ("curl -I http://a/ -d c", "curl's --head sends no body"),
        ("curl http://a/ -d @none", "could not read none: No such file"),
    ] {
        let refused = refusal(line);
        assert!(refused.contains(expected), "{line}: {refused}");
    }
    for line in ["curl '{{url}}/a?b={{c}}'", "curl 'http://[::1]:80/'", "curl -g 'http://a/[1-3]'"] {
        request(line);
    }
}
