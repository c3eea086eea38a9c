//! A request of a script, and the same with its values.

use std::time::Duration;

use reqwest::cookie::{CookieStore, Jar};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};

use super::answer::ShopAnswer;
use super::doubt::Doubt;
use super::template::{MissingValue, Template, Values};

/// A request, as a `curl` line describes it.
#[derive(Debug, Clone)]
pub struct ScriptRequest {
    /// Where the request was described, as `shop.toml:12`.
    pub origin: String,
    /// The method.
    pub method: Method,
    /// The URL. A value in its path or its query is percent-encoded.
    pub url: Template,
    /// The headers. A header of several lines stands here several times.
    pub headers: Vec<(HeaderName, Template)>,
    /// The body.
    pub body: Body,
    /// Whether redirects are followed, as `curl --location` does.
    pub follows: bool,
    /// How long the request may take with its redirects, as `curl --max-time` says. The client has a limit of its own.
    pub within: Option<Duration>,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// None.
    Empty,
    /// Text. A value stands in it as it is, in JSON too.
    Text(Template),
    /// The parts of a form, as `curl --form` sends them.
    Form(Vec<FormPart>),
}

/// A part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// The name of the field.
    pub name: String,
    /// Its content.
    pub value: Template,
    /// The name of the file that it shall be.
    pub file_name: Option<String>,
    /// Its media type.
    pub mime: Option<String>,
}

/// A request with its values.
#[derive(Debug, Clone)]
pub(crate) struct FilledRequest {
    origin: String,
    method: Method,
    pub(crate) url: Url,
    headers: HeaderMap,
    body: FilledBody,
}

#[derive(Debug, Clone)]
enum FilledBody {
    Empty,
    Text(String),
    Form(Vec<FilledPart>),
}

#[derive(Debug, Clone)]
struct FilledPart {
    name: String,
    value: String,
    file_name: Option<String>,
    mime: Option<String>,
}

impl ScriptRequest {
    /// Returns the request with its values.
    pub(crate) fn filled(&self, values: &Values) -> Result<FilledRequest, Doubt> {
        let url = self.filled_by(|| self.url.fill_url(values))?;
        let url = Url::parse(&url).map_err(|error| Doubt::Url {
            origin: self.origin.clone(),
            url,
            cause: error.to_string(),
        })?;
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let value = self.filled_by(|| value.fill(values))?;
            let refused = |_| Doubt::Header { origin: self.origin.clone(), name: name.to_string() };
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(refused)?);
        }
        let body = match &self.body {
            Body::Empty => FilledBody::Empty,
            Body::Text(text) => FilledBody::Text(self.filled_by(|| text.fill(values))?),
            Body::Form(parts) => {
                // The form writes its own, which names the border between its parts.
                headers.remove(CONTENT_TYPE);
                let filled = parts.iter().map(|part| {
                    let value = self.filled_by(|| part.value.fill(values))?;
                    let FormPart { name, file_name, mime, .. } = part.clone();
                    Ok(FilledPart { name, value, file_name, mime })
                });
                FilledBody::Form(filled.collect::<Result<_, _>>()?)
            }
        };
        Ok(FilledRequest { origin: self.origin.clone(), method: self.method.clone(), url, headers, body })
    }

    /// Names this request where a value is missing.
    fn filled_by(&self, fill: impl FnOnce() -> Result<String, MissingValue>) -> Result<String, Doubt> {
        fill().map_err(|missing| Doubt::Missing { origin: self.origin.clone(), missing })
    }
}

impl FilledRequest {
    /// Returns the request with the cookies of the buyer.
    pub(crate) fn builder(&self, client: &Client, jar: &Jar) -> Result<RequestBuilder, Doubt> {
        let mut headers = self.headers.clone();
        if let Some(kept) = jar.cookies(&self.url) {
            let cookies = with_own_cookies(&headers, kept);
            headers.insert(COOKIE, cookies);
        }
        let builder = client.request(self.method.clone(), self.url.clone()).headers(headers);
        match &self.body {
            FilledBody::Empty => Ok(builder),
            FilledBody::Text(text) => Ok(builder.body(text.clone())),
            FilledBody::Form(parts) => {
                let form = parts.iter().try_fold(Form::new(), |form, part| {
                    let refused = |_| Doubt::MediaType { origin: self.origin.clone(), name: part.name.clone() };
                    Ok(form.part(part.name.clone(), part.sent().map_err(refused)?))
                });
                Ok(builder.multipart(form?))
            }
        }
    }

    /// Returns the body for a reader. A form has a line for each part.
    pub(crate) fn shown_body(&self) -> String {
        match &self.body {
            FilledBody::Empty => String::new(),
            FilledBody::Text(text) => text.clone(),
            FilledBody::Form(parts) => parts.iter().map(FilledPart::shown).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns the URL to which an answer redirects this request, or `None` if it redirects nowhere.
    pub(crate) fn location(&self, answer: &ShopAnswer) -> Result<Option<Url>, Doubt> {
        if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = answer.headers.get(LOCATION) else { return Ok(None) };
        let location = String::from_utf8_lossy(location.as_bytes());
        let no_url = |_| Doubt::Location { origin: self.origin.clone(), location: location.to_string() };
        let url = self.url.join(&location).map_err(no_url)?;
        if url.origin() != self.url.origin() {
            let [from, to] = [&self.url, &url].map(host_of);
            return Err(Doubt::Elsewhere { origin: self.origin.clone(), from, to });
        }
        Ok(Some(url))
    }

    /// Returns the request to which an answer redirects this one, or `None` if it redirects nowhere. As with
    /// `curl --location`, a POST becomes a GET at 301 and 302, and every request but HEAD does at 303.
    pub(crate) fn redirected(&self, answer: &ShopAnswer) -> Result<Option<FilledRequest>, Doubt> {
        let Some(url) = self.location(answer)? else { return Ok(None) };
        let becomes_get = match answer.status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            _ => false,
        };
        let mut next = FilledRequest { url, ..self.clone() };
        if becomes_get {
            next.method = Method::GET;
            next.body = FilledBody::Empty;
            next.headers.remove(CONTENT_TYPE);
            next.headers.remove(CONTENT_LENGTH);
        }
        Ok(Some(next))
    }
}

impl FilledPart {
    fn sent(&self) -> reqwest::Result<Part> {
        let mut part = Part::text(self.value.clone());
        if let Some(file_name) = &self.file_name {
            part = part.file_name(file_name.clone());
        }
        match &self.mime {
            Some(mime) => part.mime_str(mime),
            None => Ok(part),
        }
    }

    fn shown(&self) -> String {
        let file_name = self.file_name.iter().map(|name| format!(";filename={name}"));
        let mime = self.mime.iter().map(|mime| format!(";type={mime}"));
        format!("{}={}{}", self.name, self.value, file_name.chain(mime).collect::<String>())
    }
}

/// Returns the scheme, the host and the port of a URL, or the scheme of a URL without a host.
fn host_of(url: &Url) -> String {
    let origin = url.origin();
    if origin.is_tuple() { origin.ascii_serialization() } else { format!("{}:", url.scheme()) }
}

/// Returns the cookies of a request: those that its headers name, and those that the shop has set. The shop's replace others of
/// the same name.
fn with_own_cookies(headers: &HeaderMap, kept: HeaderValue) -> HeaderValue {
    fn pairs(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
        value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
    }
    fn name(pair: &[u8]) -> &[u8] {
        pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
    }
    let set_by_shop = |pair: &&[u8]| !pairs(&kept).any(|kept| name(kept) == name(pair));
    let own = headers.get_all(COOKIE).iter().flat_map(pairs).filter(set_by_shop);
    let all: Vec<&[u8]> = own.chain(pairs(&kept)).collect();
    HeaderValue::from_bytes(&all.join(&b"; "[..])).unwrap_or(kept)
}
