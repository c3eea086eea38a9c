//! Carries out what a queue asks for, and tells it what came back.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tracing::warn;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, Event, Grant, Made, Pause, SessionQueue, State, Warning, Wish,
};
use zk_recipes_protocol::stat::ParentCzxid;

use super::mark::Mark;
use super::parent_watch::ParentWatches;
use super::requests::{self, Answer, Requests};
use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::proof::Proof;
use crate::session::remote::Remote;
use crate::session::weak_map::WeakMap;
use crate::session::wire::Watch;

/// The contenders of a session for the lock at one path.
pub(crate) struct Engine {
    remote: Remote,
    path: String,
    core: Mutex<Core>,
}

/// What a contender was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) made: Made,
    pub(crate) proof: Proof,
}

/// What a contender waits for: the answer to a request, or the end of a pause.
pub(super) type Request = Pin<Box<dyn Future<Output = Answer> + Send>>;

#[derive(Default)]
struct Core {
    queue: SessionQueue,
    contenders: HashMap<ContenderId, Entry>,
    parent_watches: ParentWatches,
    reported: Reported,
}

/// What the engine knows of a contender.
struct Entry {
    mark: Mark,
    node_data: Arc<[u8]>,
    /// By what it holds.
    proof: Option<Proof>,
    /// Why its last request was refused.
    refusal: Option<Error>,
    after_lost_reply: Backoff,
    after_refusal: Backoff,
    /// Whether the answer has yet to come that sets a watch of the lock's node.
    is_setting_parent_watch: bool,
    /// What was sent for it since it was polled last.
    sent: Vec<Request>,
    /// Who polls it.
    waker: Option<Waker>,
}

/// Of what the log was told.
#[derive(Debug, Default)]
struct Reported {
    foreign_child: bool,
    foreign_data: bool,
    low_supply: bool,
}

/// When the requests of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// Before the step ends, in the order of its asks.
    Now,
    /// When the contender is polled next, as its user drops it where nothing can be sent. That is only for what deletes nodes,
    /// which may be sent at any time.
    Later,
}

impl Engine {
    /// The one that runs the contenders of this session for the lock at a path.
    pub(crate) fn at(session: &Session, path: &str) -> Arc<Self> {
        let engines = session.extension::<WeakMap<String, Self>>();
        engines.at(path.to_owned(), || Self {
            remote: session.remote().clone(),
            path: path.to_owned(),
            core: Mutex::default(),
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Lets a contender begin.
    pub(super) fn enter(&self, wish: Wish, node_data: &Arc<[u8]>) -> ContenderId {
        let entry = Entry::new(Mark::new(&wish), Arc::clone(node_data));
        let mut core = self.core.lock();
        core.hear_of_parents();
        let mut asks = Vec::new();
        let id = core.queue.enter(wish, &mut asks);
        core.contenders.insert(id, entry);
        let woken = self.carry_out(&mut core, id, asks, Sending::Now);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
        id
    }

    /// Tells the queue what has happened to a contender, and carries out what it asks for.
    pub(super) fn tell(&self, id: ContenderId, event: Event, sending: Sending) {
        let mut core = self.core.lock();
        // A notification counts before the answers that the server has sent after it.
        core.hear_of_parents();
        let mut asks = Vec::new();
        core.queue.on(event, &mut asks);
        let woken = self.carry_out(&mut core, id, asks, sending);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns the others that have to be woken.
    fn carry_out(&self, core: &mut Core, by: ContenderId, asks: Vec<Ask>, sending: Sending) -> Vec<Waker> {
        let mut woken = Vec::new();
        for ask in asks {
            if ask.contender().is_some_and(|id| !core.contenders.contains_key(&id)) {
                // The session has ended, and nobody polls the contender any more.
                continue;
            }
            let told = match ask {
                Ask::Warn(warning) => {
                    core.reported.warn(&self.path, &warning);
                    continue;
                }
                Ask::Lose(id) => {
                    let node = node::child(&self.path, &core.node(id).name);
                    core.entry(id).proof.iter().for_each(|proof| proof.lose(&node));
                    continue;
                }
                Ask::Tell(id) => {
                    core.inherit_proof(id);
                    id
                }
                ask => {
                    let (id, mut request) = self.request(core, ask);
                    if sending == Sending::Now {
                        let mut context = Context::from_waker(Waker::noop());
                        if let Poll::Ready(answer) = request.as_mut().poll(&mut context) {
                            request = Box::pin(std::future::ready(answer));
                        }
                    }
                    core.entry(id).sent.push(request);
                    id
                }
            };
            if told != by {
                woken.extend(core.entry(told).waker.take());
            }
        }
        woken
    }

    /// What an ask is carried out by. Nothing is sent before it is polled.
    fn request(&self, core: &mut Core, ask: Ask) -> (ContenderId, Request) {
        let requests = Requests::new(&self.remote, &self.path);
        match ask {
            Ask::Create(id, new_node, look) => {
                let viewpoint = core.queue.viewpoint(id);
                let entry = core.entry(id);
                let (mark, node_data) = (entry.mark.clone(), Arc::clone(&entry.node_data));
                (id, unbudgeted(requests.create(id, mark, node_data, new_node, look, viewpoint)))
            }
            Ask::CreateParents(id) => (id, unbudgeted(requests.create_parents(id))),
            Ask::Find(id) => (id, unbudgeted(requests.find(id, core.entry(id).mark.clone()))),
            Ask::List(id) => (id, unbudgeted(requests.list(id, core.queue.viewpoint(id)))),
            Ask::ReadNote(id) => (id, unbudgeted(requests.read_note(id))),
            Ask::ReadNoteBeside(id) => (id, unbudgeted(requests.read_note_beside(id, core.node(id)))),
            Ask::Probe(id, names) => (id, unbudgeted(requests.probe(id, names, core.node(id)))),
            Ask::Watch(id, name) => (id, unbudgeted(requests.watch(id, name))),
            Ask::WatchParent(id, names) => {
                core.entry(id).is_setting_parent_watch = true;
                (id, unbudgeted(requests.watch_parent(names)))
            }
            Ask::Prove(id) => (id, unbudgeted(requests.prove(id))),
            Ask::Identify(id, name) => (id, unbudgeted(requests.identify(id, name))),
            Ask::Delete(id, condition) => {
                let name = core.node(id).name;
                (id, unbudgeted(requests.delete(id, name, condition)))
            }
            Ask::Pause(id, pause) => {
                let entry = core.entry(id);
                let length = match pause {
                    Pause::ReplyLost => entry.after_lost_reply.advance(),
                    Pause::Refused => entry.after_refusal.advance(),
                    Pause::Join => Pause::JOIN,
                };
                (id, unbudgeted(requests::pause(id, pause, length)))
            }
            Ask::Warn(_) | Ask::Lose(_) | Ask::Tell(_) => {
                unreachable!("BUG: {ask:?} is no request")
            }
        }
    }

    /// The state of a contender, for whoever polls it. What was sent for it goes to `requests`, and `waker` is woken when there
    /// is more.
    pub(super) fn attend(&self, id: ContenderId, waker: &Waker, requests: &FuturesUnordered<Request>) -> State {
        let mut core = self.core.lock();
        let entry = core.entry(id);
        entry.sent.drain(..).for_each(|request| requests.push(request));
        entry.waker = Some(waker.clone());
        // A watch that is being set would stay behind if nobody took its answer, and a request that nobody polls would keep a
        // session open that is being closed. The answer comes right behind that of the `create`.
        let is_setting_parent_watch = entry.is_setting_parent_watch;
        match core.queue.state(id) {
            State::Holding(_) if is_setting_parent_watch => State::Contending,
            state => state,
        }
    }

    /// The node of a contender, once that is known.
    pub(super) fn node(&self, id: ContenderId) -> Option<Made> {
        self.core.lock().queue.node(id).cloned()
    }

    /// The error that says that the session has ended.
    pub(super) fn session_ended(&self) -> Error {
        self.remote.ended()
    }

    /// Whether nothing of a contender is left to do.
    pub(super) fn is_over(&self, id: ContenderId) -> bool {
        matches!(self.core.lock().queue.state(id), State::Over(_))
    }

    /// What a contender was granted.
    pub(super) fn granted(&self, id: ContenderId, grant: Grant) -> Granted {
        let proof = self.core.lock().entry(id).proof.clone();
        Granted { made: grant.node, proof: proof.expect("BUG: a grant without a proof that the session lives") }
    }

    /// Keeps the watch of the lock's node that was set for a contender; `None` if it could not be set.
    pub(super) fn keep_parent_watch(&self, id: ContenderId, names: Names, set: Option<(ParentCzxid, Watch)>) {
        let mut core = self.core.lock();
        core.hear_of_parents();
        core.entry(id).is_setting_parent_watch = false;
        core.tell_only(Event::ParentWatchSet(names, set.as_ref().map(|(parent, _)| *parent)));
        if let Some((_, watch)) = set {
            core.parent_watches.keep(names, watch);
        }
    }

    pub(super) fn note_proof(&self, id: ContenderId, proof: Proof) {
        self.core.lock().entry(id).proof = Some(proof);
    }

    pub(super) fn note_refusal(&self, id: ContenderId, error: Error) {
        self.core.lock().entry(id).refusal = Some(error);
    }

    /// Why the last request of a contender was refused.
    pub(super) fn take_refusal(&self, id: ContenderId) -> Option<Error> {
        self.core.lock().entry(id).refusal.take()
    }

    /// Notes that a contender does not hold any more.
    pub(super) fn forget_proof(&self, id: ContenderId) {
        // Dropped where nothing is locked.
        let _proof = self.core.lock().entry(id).proof.take();
    }

    /// Forgets a contender that nobody polls any more: it is over, or its session has ended.
    pub(super) fn forget(&self, id: ContenderId) {
        let mut core = self.core.lock();
        core.queue.discard(id);
        let forgotten = core.contenders.remove(&id);
        drop(core);
        drop(forgotten);
    }
}

impl Core {
    fn entry(&mut self, id: ContenderId) -> &mut Entry {
        self.contenders.get_mut(&id).expect("BUG: a contender that was forgotten asks for something")
    }

    fn node(&self, id: ContenderId) -> Made {
        self.queue.node(id).cloned().expect("BUG: a contender without a node asks for it")
    }

    /// Tells the queue what the watches of the lock's node have shown.
    fn hear_of_parents(&mut self) {
        self.parent_watches.fired().into_iter().for_each(|event| self.tell_only(event));
    }

    /// Tells the queue what it only notes.
    fn tell_only(&mut self, event: Event) {
        let mut asks = Vec::new();
        self.queue.on(event, &mut asks);
        debug_assert!(asks.is_empty(), "BUG: nobody carries out {asks:?}");
    }

    /// Lets the proof of whoever has passed its hold on count for the contender, too.
    fn inherit_proof(&mut self, id: ContenderId) {
        if let State::Holding(Grant { handed_over_by: Some(from), .. }) = self.queue.state(id) {
            let proof = self.contenders.get(&from).and_then(|from| from.proof.clone());
            self.entry(id).proof = proof;
        }
    }
}

impl Entry {
    fn new(mark: Mark, node_data: Arc<[u8]>) -> Self {
        Self {
            mark,
            node_data,
            proof: None,
            refusal: None,
            after_lost_reply: Backoff::after_lost_reply(),
            after_refusal: Backoff::after_refusal(),
            is_setting_parent_watch: false,
            sent: Vec::new(),
            waker: None,
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Reported {
    /// Writes a warning to the log, once.
    fn warn(&mut self, lock: &str, warning: &Warning) {
        let is_new = |reported: &mut bool| !std::mem::replace(reported, true);
        match warning {
            Warning::ForeignChild(child) if is_new(&mut self.foreign_child) => {
                warn!(
                    lock,
                    child, "ignoring a child that is no contender; Apache Curator clients would queue behind it"
                );
            }
            Warning::ForeignData if is_new(&mut self.foreign_data) => {
                warn!(lock, "the data of the lock's node are not ours: each hand-over needs a listing");
            }
            Warning::LowSupply(number) if is_new(&mut self.low_supply) => node::warn_of_low_supply(lock, *number),
            _ => {}
        }
    }
}

/// A request whose polls do not count towards the budget of the task that polls it: one that is out of budget would be taken
/// for one that waits.
fn unbudgeted(request: impl Future<Output = Answer> + Send + 'static) -> Request {
    Box::pin(tokio::task::unconstrained(request))
}
