//! Lines of curl, as manuals and browsers write them.

use super::*;

/// Writes a text in quotes for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes a part of a form. `--form` reads a text in quotation marks, with two escapes.
fn part(CurlPart { name, value, file_name, mime }: &CurlPart) -> String {
    let text = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let attribute = |name: &str, value: &Option<String>| {
        value.as_ref().map_or(String::new(), |value| format!(";{name}={}", text(value)))
    };
    format!("{name}={}{}{}", text(value), attribute("type", mime), attribute("filename", file_name))
}

/// Writes a request as a line of curl, with nothing left to defaults.
fn written(request: &CurlRequest) -> String {
    let CurlRequest { method, url, headers, body, follows, within, user } = request;
    let mut line = format!("curl --globoff --request {} --url {}", quoted(method.as_str()), quoted(url));
    let mut option = |name: &str, value: &str| line += &format!(" --{name} {}", quoted(value));
    for (name, value) in headers {
        option("header", &if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") });
    }
    match body {
        CurlBody::Empty => {}
        CurlBody::Text(text) => option("data-raw", text),
        CurlBody::Form(parts) => parts.iter().for_each(|it| option("form", &part(it))),
    }
    if let Some(user) = user {
        option("user", user);
    }
    if let Some(within) = within {
        option("max-time", &within.as_secs_f64().to_string());
    }
    line + if *follows { " --location" } else { "" }
}

// C57
#[test]
fn a_request_is_read_from_the_line_that_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body"), "a=b\r\nc").unwrap();
    let folder = folder.path();
    fuzz::any_text("curl-lines", |line| {
        let request = match read(line, folder) {
            Ok(request) => request,
            Err(refusal) => return assert!(!refusal.is_empty()),
        };
        assert!(request.within.is_none_or(|within| !within.is_zero()), "{line:?}");
        assert!(request.user.as_ref().is_none_or(|user| user.contains(':')), "{line:?}");
        let line = written(&request);
        let again = read(&line, folder).unwrap_or_else(|refusal| panic!("{refusal}: {line}"));
        // A text declares its content type, unless the line names one or removes it.
        let declared = |headers: &[(HeaderName, String)]| headers.iter().any(|(name, _)| *name == CONTENT_TYPE);
        let mut headers = again.headers.clone();
        headers.retain(|(name, _)| *name != CONTENT_TYPE || declared(&request.headers));
        assert_eq!((&headers, &again.body), (&request.headers, &request.body), "{line}");
        assert_eq!((&again.method, &again.url, again.follows), (&request.method, &request.url, request.follows));
        assert_eq!((&again.user, again.within), (&request.user, request.within), "{line}");
    });
}
