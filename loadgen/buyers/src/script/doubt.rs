//! Why it is unknown what a buyer got.

use std::time::Duration;

use super::source::Source;
use super::template::MissingValue;
use super::veil::Veil;

/// Why it is unknown whether a buyer got a unit, or why a sign-up failed. Secret values are hidden in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// The connection failed.
    #[error("no answer: {cause}")]
    NoAnswer {
        /// What failed.
        cause: String,
    },
    /// The answer did not come in time.
    #[error("no answer in time")]
    Timeout,
    /// No meaning names the last answer.
    #[error(
        "answered {status}{}, which no pattern of sold, sold-out, over-limit, refused or queued matches{}",
        to(.location.as_deref()),
        cut(*.is_cut)
    )]
    Unnamed {
        /// The status of the answer.
        status: u16,
        /// Where a redirect leads: the path within the shop, or the address of another one.
        location: Option<String>,
        /// Whether only the beginning of the answer was kept, which is not read as JSON.
        is_cut: bool,
    },
    /// An earlier answer is neither 2xx nor a redirect within the shop, and neither sold out nor refused names it.
    #[error("{origin}: answered {status}, which is no success; name it in sold-out or refused if it ends the purchase")]
    Interrupted {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The status of the answer.
        status: u16,
    },
    /// An answer of the sign-up is no success.
    #[error("{origin}: answered {status}, and a sign-up needs 2xx, or a redirect by 302 or 303")]
    NotSignedUp {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The status of the answer.
        status: u16,
    },
    /// An answer to what is done once for all buyers is no success.
    #[error("{origin}: answered {status}, and {part} needs 2xx")]
    NoSuccess {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The status of the answer.
        status: u16,
        /// The part of the file that has the request, as `[sale]`.
        part: String,
    },
    /// No answer had a value that it should give.
    #[error("no answer has `{name}`, which is taken from {from}")]
    NothingTaken {
        /// The name of the value.
        name: String,
        /// Where the value should be.
        from: String,
    },
    /// A queued buyer was told no outcome in time.
    #[error("still queued after {}, the time of [outcome] within", humantime::format_duration(*.within))]
    StillQueued {
        /// How long the buyer asked.
        within: Duration,
    },
    /// A buyer was queued, and no section says how to ask for the outcome.
    #[error("queued, and no [outcome] says how to ask for the outcome")]
    NoPoll,
    /// A request needs a value that nothing gave.
    #[error("{origin}: {missing}")]
    Missing {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The value.
        missing: MissingValue,
    },
    /// The URL of a request is none, with its values.
    #[error("{origin}: `{url}` is no URL: {cause}")]
    Url {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The URL with its values.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The value of a header has a character that no header may have.
    #[error("{origin}: the value of the header `{name}` has a line break or another control character")]
    Header {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The name of the header.
        name: String,
    },
    /// The type of a part of a form is no media type.
    #[error("{origin}: the type of the form's part `{name}` is no media type like text/plain")]
    MediaType {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The name of the part.
        name: String,
    },
    /// A redirect leads to another host, port or scheme.
    #[error("{origin}: {from} redirects to {to}, and requests go only to the addresses of the file")]
    Elsewhere {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// Scheme, host and port of the request.
        from: String,
        /// Scheme, host and port of the redirect.
        to: String,
    },
    /// A redirect leads to no URL.
    #[error("{origin}: redirected to `{location}`, which is no URL")]
    Location {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// The target of the redirect.
        location: String,
    },
    /// The redirects do not end.
    #[error("{origin}: redirected more than {most} times")]
    Redirects {
        /// The request, as `shop.toml:12`.
        origin: String,
        /// How many redirects are followed.
        most: u32,
    },
    /// A section has no request.
    #[error("there is no request to send")]
    NoRequest,
    /// The load was called off while the buyer waited.
    #[error("the load was called off")]
    CalledOff,
}

impl Doubt {
    /// Returns whether the time ran out, for an answer or for the outcome of a queued buyer.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Doubt::Timeout | Doubt::StillQueued { .. })
    }

    /// Returns the doubt about a request that failed before its answer was read.
    pub(crate) fn of_failure(error: reqwest::Error) -> Doubt {
        if error.is_timeout() {
            return Doubt::Timeout;
        }
        Doubt::NoAnswer { cause: program::chain(&error.without_url()) }
    }

    /// Hides the secrets in what came from a request or from the shop.
    pub(crate) fn veiled(mut self, veil: &Veil) -> Doubt {
        let hide = |text: &mut String| *text = veil.over(text);
        match &mut self {
            Doubt::NoAnswer { cause } => hide(cause),
            Doubt::Url { url, cause, .. } => [url, cause].into_iter().for_each(hide),
            Doubt::Elsewhere { from, to, .. } => [from, to].into_iter().for_each(hide),
            Doubt::Location { location, .. } | Doubt::Unnamed { location: Some(location), .. } => hide(location),
            _ => {}
        }
        self
    }

    pub(crate) fn nothing_taken(name: &str, source: &Source) -> Doubt {
        Doubt::NothingTaken { name: name.to_owned(), from: source.to_string() }
    }
}

fn to(location: Option<&str>) -> String {
    location.map_or_else(String::new, |location| format!(" to {location}"))
}

fn cut(is_cut: bool) -> &'static str {
    if is_cut { "; it is too long to be read as JSON, and only its first MiB was searched for a text" } else { "" }
}
