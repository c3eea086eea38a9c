//! A buyer's way through the requests of a section.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::cookie::{CookieStore, Jar};
use reqwest::header::{HeaderMap, SET_COOKIE};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use tokio::time::Instant;

use super::answer::ShopAnswer;
use super::doubt::Doubt;
use super::exchange::{Exchange, Observer, ShownAnswer};
use super::meaning::{Meaning, Meanings};
use super::request::{FilledRequest, ScriptRequest};
use super::source::Source;
use super::steps::{Poll, Steps};
use super::template::Values;
use super::transport::Transport;
use super::veil::Veil;
use crate::received::head_bytes;

/// How much of a body is kept, in bytes. The rest is read and counted.
const BODY_KEPT_BYTES: usize = 1024 * 1024;

/// How many redirects of a request are followed.
const REDIRECTS_MAX: u32 = 10;

/// How an answer is read that decides nothing.
const GOES_ON: &str = "a success, so the buyer goes on";

/// How an answer to what is done once for all buyers is read.
const DONE: &str = "a success";

/// A buyer's way through requests, with what it has and what it counts.
pub(crate) struct Visit<'a, 'o, T> {
    pub(crate) values: &'a mut Values,
    pub(crate) jar: &'a Jar,
    /// The names of the secret values.
    pub(crate) secrets: &'a BTreeSet<String>,
    pub(crate) transport: &'a mut T,
    pub(crate) observer: Observer<'o>,
    pub(crate) course: Course,
}

/// What was sent and received, and the instants of the last request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    pub(crate) requests: u32,
    pub(crate) received_bytes: u64,
    pub(crate) status: Option<u16>,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) ended: Instant,
}

/// An answer whose values are taken. A dry run still has to be told how the answer is read.
struct Unread {
    answer: ShopAnswer,
    exchange: Option<Exchange>,
    /// Where the answer redirects to, if it does. It was not followed.
    redirects_to: Result<Option<Url>, Doubt>,
}

impl Course {
    pub(crate) fn new() -> Course {
        Course { requests: 0, received_bytes: 0, status: None, first_byte: None, ended: Instant::now() }
    }

    fn begins_request(&mut self) {
        self.requests += 1;
        self.status = None;
        self.first_byte = None;
    }
}

impl<T: Transport> Visit<'_, '_, T> {
    /// Signs the buyer up: every answer is a success, and every value that is to be taken is there in the end.
    pub(crate) async fn sign_up(&mut self, steps: &Steps) -> Result<(), Doubt> {
        for request in &steps.requests {
            let unread = self.ask(request, &steps.take).await?;
            let status = unread.answer.status.as_u16();
            self.go_on(unread, Doubt::NotSignedUp { origin: request.origin.clone(), status })?;
        }
        self.ensure_taken(steps)
    }

    /// Does what is done once for all buyers: every answer is 2xx, and every value that is to be taken is there in the end. A
    /// redirect is none, as it may lead to a login.
    pub(crate) async fn errand(&mut self, part: &str, steps: &Steps) -> Result<(), Doubt> {
        for request in &steps.requests {
            let Unread { answer, exchange, .. } = self.ask(request, &steps.take).await?;
            let status = answer.status;
            if !status.is_success() {
                let origin = request.origin.clone();
                let doubt = Doubt::NoSuccess { origin, status: status.as_u16(), part: part.to_owned() };
                return Err(self.doubt(exchange, doubt));
            }
            self.show(exchange, || DONE.to_owned());
        }
        self.ensure_taken(steps)
    }

    fn ensure_taken(&self, steps: &Steps) -> Result<(), Doubt> {
        match steps.take.iter().find(|(name, _)| !self.values.contains_key(*name)) {
            Some((name, source)) => Err(Doubt::nothing_taken(name, source)),
            None => Ok(()),
        }
    }

    /// Goes on after an answer that decides nothing: 2xx, or a redirect within the shop. Forms are answered by such redirects.
    /// `otherwise` is the doubt about any other answer.
    fn go_on(&mut self, unread: Unread, otherwise: Doubt) -> Result<(), Doubt> {
        let Unread { answer, exchange, redirects_to } = unread;
        if answer.status.is_success() {
            self.show(exchange, || GOES_ON.to_owned());
            return Ok(());
        }
        let is_answer_to_form = matches!(answer.status, StatusCode::FOUND | StatusCode::SEE_OTHER);
        match redirects_to {
            Ok(Some(url)) if is_answer_to_form => {
                self.show(exchange, || format!("a redirect to {url}, which is {GOES_ON}"));
                Ok(())
            }
            Err(doubt) if is_answer_to_form => Err(self.doubt(exchange, doubt)),
            _ => Err(self.doubt(exchange, otherwise)),
        }
    }

    /// Sends the requests of a purchase until an answer decides it. Returns this answer and what it means.
    pub(crate) async fn purchase(
        &mut self,
        steps: &Steps,
        meanings: &Meanings,
    ) -> Result<(Meaning, ShopAnswer), Doubt> {
        let (last, early) = steps.requests.split_last().ok_or(Doubt::NoRequest)?;
        for request in early {
            let unread = self.ask(request, &steps.take).await?;
            if let Some(meaning) = meanings.of_an_early(&unread.answer) {
                self.show(unread.exchange, || meaning.to_string());
                return Ok((meaning, unread.answer));
            }
            let status = unread.answer.status.as_u16();
            self.go_on(unread, Doubt::Interrupted { origin: request.origin.clone(), status })?;
        }
        let Unread { answer, exchange, redirects_to } = self.ask(last, &steps.take).await?;
        match meanings.of(&answer) {
            Some(meaning) => {
                self.show(exchange, || meaning.to_string());
                Ok((meaning, answer))
            }
            None => {
                let status = answer.status.as_u16();
                let location = match redirects_to {
                    Ok(url) => url.map(|url| url.path().to_owned()),
                    Err(Doubt::Elsewhere { to, .. }) => Some(to),
                    Err(_) => None,
                };
                Err(self.doubt(exchange, Doubt::Unnamed { status, location, is_cut: answer.is_cut }))
            }
        }
    }

    /// Asks for the outcome of a queued buyer until an answer decides it, or the time is up.
    pub(crate) async fn outcome(&mut self, poll: &Poll, meanings: &Meanings) -> Result<(Meaning, ShopAnswer), Doubt> {
        let asking = async {
            loop {
                tokio::time::sleep(poll.every).await;
                let decided = self.purchase(&poll.steps, meanings).await?;
                if decided.0 != Meaning::Queued {
                    return Ok::<_, Doubt>(decided);
                }
            }
        };
        let Ok(decided) = tokio::time::timeout(poll.within, asking).await else {
            self.course.ended = Instant::now();
            return Err(Doubt::StillQueued { within: poll.within });
        };
        decided
    }

    /// Sends a request, follows its redirects if it wants that, and takes values from every answer.
    async fn ask(&mut self, request: &ScriptRequest, take: &BTreeMap<String, Source>) -> Result<Unread, Doubt> {
        let due = request.within.and_then(|within| Instant::now().checked_add(within));
        let mut filled = request.filled(self.values).map_err(|doubt| self.doubt(None, doubt))?;
        for _ in 0..=REDIRECTS_MAX {
            let Unread { answer, mut exchange, .. } = self.send(&request.origin, &filled, due).await?;
            self.take(take, &answer, exchange.as_mut());
            if !request.follows {
                let redirects_to = filled.location(&answer);
                return Ok(Unread { answer, exchange, redirects_to });
            }
            match filled.redirected(&answer) {
                Ok(None) => return Ok(Unread { answer, exchange, redirects_to: Ok(None) }),
                Ok(Some(next)) => {
                    self.show(exchange, || format!("redirected to {}", next.url));
                    filled = next;
                }
                Err(doubt) => return Err(self.doubt(exchange, doubt)),
            }
        }
        Err(Doubt::Redirects { origin: request.origin.clone(), most: REDIRECTS_MAX })
    }

    /// Sends one request with the buyer's cookies, and reads the answer.
    async fn send(&mut self, origin: &str, filled: &FilledRequest, due: Option<Instant>) -> Result<Unread, Doubt> {
        let mut builder = filled.builder(self.transport.client(), self.jar)?;
        if let Some(due) = due {
            builder = builder.timeout(due.saturating_duration_since(Instant::now()));
        }
        let mut exchange = None;
        if self.observer.is_some() {
            let (client, request) = builder.build_split();
            let request = request.map_err(|error| self.doubt(None, Doubt::of_failure(error)))?;
            exchange = Some(Exchange::of(origin, &request, filled.shown_body()));
            builder = RequestBuilder::from_parts(client, request);
        }
        self.course.begins_request();
        let Some(response) = self.transport.send(builder).await else {
            return Err(self.doubt(exchange, Doubt::CalledOff));
        };
        let answer = match response {
            Ok(response) => self.read(response, &filled.url).await,
            Err(error) => Err(error),
        };
        self.course.ended = Instant::now();
        match answer {
            Ok(answer) => {
                self.course.status = Some(answer.status.as_u16());
                if let Some(exchange) = &mut exchange {
                    exchange.answer = Some(ShownAnswer::of(&answer));
                }
                Ok(Unread { answer, exchange, redirects_to: Ok(None) })
            }
            Err(error) => Err(self.doubt(exchange, Doubt::of_failure(error))),
        }
    }

    /// Keeps the cookies of an answer, and reads its body to the end.
    async fn read(&mut self, mut response: Response, url: &Url) -> reqwest::Result<ShopAnswer> {
        self.course.first_byte = Some(Instant::now());
        self.course.received_bytes += head_bytes(&response);
        let headers = std::mem::take(response.headers_mut());
        keep_cookies(self.jar, &headers, url);
        let mut body = Vec::new();
        let mut is_cut = false;
        while let Some(chunk) = response.chunk().await? {
            self.course.received_bytes += chunk.len() as u64;
            let kept = chunk.len().min(BODY_KEPT_BYTES - body.len());
            body.extend_from_slice(&chunk[..kept]);
            is_cut |= kept < chunk.len();
        }
        Ok(ShopAnswer::new(response.status(), headers, body, is_cut))
    }

    /// Takes the values that an answer has.
    fn take(&mut self, take: &BTreeMap<String, Source>, answer: &ShopAnswer, exchange: Option<&mut Exchange>) {
        let taken = take.iter().filter_map(|(name, source)| Some((name.clone(), source.value_in(answer)?)));
        match exchange {
            None => self.values.extend(taken),
            Some(exchange) => {
                exchange.taken = taken.collect();
                self.values.extend(exchange.taken.clone());
            }
        }
    }

    /// Hides the secrets in a doubt. It is how the answer of the exchange is read.
    fn doubt(&mut self, exchange: Option<Exchange>, doubt: Doubt) -> Doubt {
        let doubt = doubt.veiled(&Veil::of(self.values, self.secrets));
        self.show(exchange, || doubt.to_string());
        doubt
    }

    /// Shows an exchange, with how its answer is read.
    fn show(&mut self, exchange: Option<Exchange>, reading: impl FnOnce() -> String) {
        let (Some(observer), Some(exchange)) = (&mut self.observer, exchange) else { return };
        let exchange = Exchange { reading: reading(), ..exchange };
        observer(&exchange.veiled(&Veil::of(self.values, self.secrets)));
    }
}

fn keep_cookies(jar: &Jar, headers: &HeaderMap, url: &Url) {
    let mut cookies = headers.get_all(SET_COOKIE).iter().peekable();
    if cookies.peek().is_some() {
        jar.set_cookies(&mut cookies, url);
    }
}
