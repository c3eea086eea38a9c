//! A request, as a line of `curl` writes it.
//!
//! The options that say what is sent are read. Those about curl's own output are skipped, as nothing is printed or saved
//! here. Every other option is refused by name, because a request that is sent without it is another request.

mod attached;
mod data;
mod form;
mod head;

use std::path::Path;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, REFERER, USER_AGENT};

use self::data::Payload;
pub(super) use self::form::CurlPart;
use self::head::Headers;
use super::words;

/// Options about what curl prints, saves or shows, which change nothing that it sends. Those with `Set` have a value.
const SKIPPED: [(Option<char>, &str, ArgAction); 17] = [
    (Some('s'), "silent", ArgAction::SetTrue),
    (Some('S'), "show-error", ArgAction::SetTrue),
    (Some('i'), "include", ArgAction::SetTrue),
    (None, "show-headers", ArgAction::SetTrue),
    (Some('v'), "verbose", ArgAction::SetTrue),
    (Some('f'), "fail", ArgAction::SetTrue),
    (None, "fail-with-body", ArgAction::SetTrue),
    (Some('#'), "progress-bar", ArgAction::SetTrue),
    (None, "no-progress-meter", ArgAction::SetTrue),
    (Some('N'), "no-buffer", ArgAction::SetTrue),
    (Some('O'), "remote-name", ArgAction::SetTrue),
    (Some('g'), "globoff", ArgAction::SetTrue),
    // Answers are asked for as plain text: see `head::SET_BY_CLIENT`.
    (None, "compressed", ArgAction::SetTrue),
    (Some('o'), "output", ArgAction::Set),
    (Some('D'), "dump-header", ArgAction::Set),
    (Some('w'), "write-out", ArgAction::Set),
    (None, "stderr", ArgAction::Set),
];

/// Makes an option that is read and then forgotten.
fn skipped((short, long, action): (Option<char>, &'static str, ArgAction)) -> Arg {
    let option = Arg::new(long).long(long).action(action).hide(true);
    short.map_or(option.clone(), |short| option.short(short))
}

/// The options of curl that a request may have.
#[derive(Debug, Parser)]
#[command(name = "curl", no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
#[command(args_override_self = true, args(SKIPPED.map(skipped)))]
struct CurlLine {
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    #[arg(long = "url")]
    more_urls: Vec<String>,
    #[arg(short = 'X', long)]
    request: Option<String>,
    #[arg(short = 'H', long = "header", allow_hyphen_values = true)]
    headers: Vec<String>,
    /// The texts of the five kinds of data. Their order among each other counts, so [`Payload`] reads them again.
    #[arg(short = 'd', long = "data", visible_alias = "data-ascii", allow_hyphen_values = true)]
    data: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_raw: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_binary: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_urlencode: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    json: Vec<String>,
    #[arg(short = 'F', long = "form", allow_hyphen_values = true)]
    forms: Vec<String>,
    #[arg(short = 'u', long)]
    user: Option<String>,
    #[arg(short = 'b', long = "cookie")]
    cookies: Vec<String>,
    #[arg(short = 'A', long, allow_hyphen_values = true)]
    user_agent: Option<String>,
    #[arg(short = 'e', long)]
    referer: Option<String>,
    #[arg(short = 'G', long)]
    get: bool,
    #[arg(short = 'I', long)]
    head: bool,
    #[arg(short = 'L', long)]
    location: bool,
    #[arg(short = 'm', long)]
    max_time: Option<f64>,
    #[arg(short = 'k', long, hide = true)]
    insecure: bool,
}

/// A request before its values are filled in.
#[derive(Debug)]
pub(super) struct CurlRequest {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: CurlBody,
    /// Whether redirects are followed.
    pub(super) follows: bool,
    /// The longest time until the answer.
    pub(super) within: Option<Duration>,
    /// `name:password`.
    pub(super) user: Option<String>,
}

/// The body of a [`CurlRequest`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CurlBody {
    Empty,
    Text(String),
    Form(Vec<CurlPart>),
}

/// Reads a line. Files of `@file` are looked for in `folder`.
pub(super) fn read(line: &str, folder: &Path) -> Result<CurlRequest, String> {
    let words = words::split(line)?;
    let (program, options) = words.split_first().ok_or("a request is empty; write curl and a URL")?;
    if Path::new(program).file_name().is_none_or(|name| name != "curl") {
        return Err(format!("a request is a line of curl, and this one begins with {program}; write curl and a URL"));
    }
    let matches = CurlLine::command().try_get_matches_from(options).map_err(|error| refusal(&error))?;
    let line = CurlLine::from_arg_matches(&matches).map_err(|error| refusal(&error))?;
    line.into_request(&matches, folder)
}

impl CurlLine {
    fn into_request(self, matches: &ArgMatches, folder: &Path) -> Result<CurlRequest, String> {
        if self.insecure {
            return Err("curl's --insecure is not supported: a load that trusts every certificate may reach another \
                        server; name the certificate of the shop by `certificate` in [shop]"
                .to_owned());
        }
        let mut url = self.only_url()?.to_owned();
        if !matches.get_flag("globoff") {
            ensure_one(&url)?;
        }
        let mut headers = self.named_headers()?;
        let payload = Payload::read(matches, folder)?;
        let is_get = self.get;
        let has_forms = !self.forms.is_empty();
        if has_forms && (payload.is_some() || is_get) {
            return Err("curl sends either --form or --data; remove one of them".to_owned());
        }
        let has_body = has_forms || (payload.is_some() && !is_get);
        if has_body && self.head {
            return Err(
                "curl's --head sends no body; remove --head, or add --get to put the data into the URL".to_owned()
            );
        }
        let body = match payload {
            Some(payload) if is_get => {
                url = with_query(&url, &payload.text);
                CurlBody::Empty
            }
            Some(payload) => {
                headers.add_unless_named(CONTENT_TYPE, payload.mime())?;
                if payload.is_json {
                    headers.add_unless_named(ACCEPT, payload.mime())?;
                }
                CurlBody::Text(payload.text)
            }
            None if has_forms => {
                // The client writes it, with the boundary between the parts.
                headers.remove(&CONTENT_TYPE);
                CurlBody::Form(self.forms.iter().map(|form| form::read(form, folder)).collect::<Result<_, _>>()?)
            }
            None => CurlBody::Empty,
        };
        let method = match (&self.request, self.head, has_body) {
            (Some(method), ..) => Method::from_bytes(method.as_bytes()).map_err(|_| no_method(method))?,
            (None, true, _) => Method::HEAD,
            (None, false, true) => Method::POST,
            (None, false, false) => Method::GET,
        };
        let within = self.max_time.map(longest).transpose()?;
        let user = self.user.map(named_user).transpose()?;
        Ok(CurlRequest { method, url, headers: headers.list, body, follows: self.location, within, user })
    }

    fn only_url(&self) -> Result<&str, String> {
        match (self.urls.as_slice(), self.more_urls.as_slice()) {
            ([url], []) | ([], [url]) => Ok(url),
            ([], []) => Err("the line of curl has no URL; write one".to_owned()),
            (urls, more) => {
                let urls: Vec<_> = urls.iter().chain(more).map(String::as_str).collect();
                Err(format!("the line of curl has several URLs, {}; write one line a request", urls.join(" and ")))
            }
        }
    }

    /// Returns the headers of `--header`, and those that other options name.
    fn named_headers(&self) -> Result<Headers, String> {
        let mut headers = Headers::read(&self.headers)?;
        for cookie in &self.cookies {
            if !cookie.contains('=') {
                return Err(format!(
                    "curl's --cookie {cookie} names a file, which is not supported; write the cookies, as in \
                     --cookie 'name=value'"
                ));
            }
        }
        if !self.cookies.is_empty() {
            headers.add_unless_named(COOKIE, &self.cookies.join("; "))?;
        }
        if let Some(agent) = &self.user_agent {
            headers.add_unless_named(USER_AGENT, agent)?;
        }
        if let Some(referer) = &self.referer {
            headers.add_unless_named(REFERER, referer.trim_end_matches(";auto"))?;
        }
        Ok(headers)
    }
}

fn no_method(method: &str) -> String {
    format!("{method:?} is no method of HTTP; write one such as POST")
}

fn longest(seconds: f64) -> Result<Duration, String> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("curl's --max-time {seconds} is no time; write seconds above 0"))
}

fn named_user(user: String) -> Result<String, String> {
    if user.contains(':') { Ok(user) } else { Err("curl's --user asks for a password; write name:password".to_owned()) }
}

/// Refuses a URL that curl would expand to several ones.
fn ensure_one(url: &str) -> Result<(), String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    // A host may be an address in brackets.
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let names = path.split("{{").map(|part| part.split_once("}}").map_or(part, |(_, rest)| rest));
    if names.into_iter().any(|text| text.contains(['{', '}', '[', ']'])) {
        return Err(format!("curl expands the brackets in {url}; write one line a request, or --globoff to send them"));
    }
    Ok(())
}

/// Adds data to the query of a URL, before its fragment.
fn with_query(url: &str, data: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let joint = match url.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{url}{joint}{data}")
}

/// Says why the options of a line cannot be read.
fn refusal(error: &clap::Error) -> String {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        return format!("curl's {option} is not supported; supported are {}", supported());
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    format!("the line of curl cannot be read: {}", first.trim_start_matches("error: "))
}

/// Lists the supported options, without those that are skipped.
fn supported() -> String {
    let command = CurlLine::command();
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    let longs = shown.filter_map(|option| Some(format!("--{}", option.get_long()?)));
    longs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;
