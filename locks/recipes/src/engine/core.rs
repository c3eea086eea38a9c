//! Carries out the asks of a queue, and delivers the answers to it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::session_queue::{Ask, ContenderId, ContenderState, Event, Made, Pause, SessionQueue, Wish};
use zk_recipes_protocol::stat::ParentCzxid;
use zookeeper_client::Error as ClientError;

use super::logged_warnings::LoggedWarnings;
use super::requests::{self, Answer, Requests};
use super::shared::{ParentWatches, Reads};
use crate::error::Error;
use crate::node::{self, Mark};
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::liveness::proof::Proof;
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::weak_map::WeakMap;
use crate::session::wire::Watch;

/// The contenders of a session for the lock at one path.
pub(crate) struct Engine {
    remote: Remote,
    path: String,
    reads: Reads,
    core: Mutex<EngineCore>,
}

/// A request under way, or a pause. Its output is the answer.
pub(super) type Request = Pin<Box<dyn Future<Output = Answer> + Send>>;

#[derive(Default)]
struct EngineCore {
    queue: SessionQueue,
    contenders: HashMap<ContenderId, ContenderIo>,
    parent_watches: ParentWatches,
    logged_warnings: LoggedWarnings,
}

/// The engine's part of a contender.
struct ContenderIo {
    mark: Mark,
    node_data: Arc<[u8]>,
    /// The proof of its hold.
    proof: Option<Proof>,
    /// Why the server refused its last request.
    refusal: Option<Error>,
    /// The pauses before its `create` is repeated. Once it has a node, they start again, for the deletion.
    to_repeat: Backoff,
    after_refusal: Backoff,
    /// Whether it is setting a watch of the lock's node, and the answer has not arrived.
    is_setting_parent_watch: bool,
    /// The requests for it since its last poll.
    sent: Vec<Request>,
    /// The waker of the task that polls it.
    waker: Option<Waker>,
}

/// The time at which the requests of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// Before the step ends, in the order of its asks.
    Now,
    /// At the next poll of the contender. A `Drop` needs this, because it may run where nothing can be sent. The requests of such a
    /// step only delete nodes, so they may be sent at any time.
    Later,
}

impl Engine {
    /// Returns the engine of this session for the lock at `path`. All contenders of the session there share it.
    pub(crate) fn at(session: &Session, path: &str) -> Arc<Self> {
        let engines = session.extension::<WeakMap<String, Self>>();
        engines.at(path.to_owned(), || Self {
            remote: session.remote().clone(),
            path: path.to_owned(),
            reads: Reads::new(session.remote().runtime()),
            core: Mutex::new(EngineCore { parent_watches: ParentWatches::at(path), ..EngineCore::default() }),
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Adds a contender and sends its first requests.
    pub(super) fn enter(&self, wish: Wish, node_data: &Arc<[u8]>) -> ContenderId {
        let entry = ContenderIo::new(Mark::new(&wish), Arc::clone(node_data));
        let mut core = self.core.lock();
        core.hear_of_parents();
        let mut asks = Vec::new();
        let id = core.queue.enter(wish, &mut asks);
        core.contenders.insert(id, entry);
        let woken = self.carry_out(&mut core, id, asks, Sending::Now);
        drop(core);
        // A waker may run any code, so it is woken after the lock is released.
        woken.into_iter().for_each(Waker::wake);
        id
    }

    /// Reports an event of a contender to the queue, and carries out the queue's asks.
    pub(super) fn tell(&self, id: ContenderId, event: Event, sending: Sending) {
        let mut core = self.core.lock();
        // The queue must hear of a notification before the answers that the server sent after it.
        core.hear_of_parents();
        let had_node = core.queue.node(id).is_some();
        let mut asks = Vec::new();
        core.queue.on(event, &mut asks);
        if !had_node && core.queue.node(id).is_some() {
            core.entry(id).to_repeat = Backoff::to_repeat();
        }
        let woken = self.carry_out(&mut core, id, asks, sending);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Lets a contender give up or release. `hands_over`: its hold goes to the successor, if the successor belongs to the session.
    pub(super) fn leave(&self, id: ContenderId, hands_over: bool, sending: Sending) {
        let is_node_gone = self.core.lock().entry(id).proof.as_ref().is_some_and(Proof::is_void);
        self.tell(id, Event::Leaves { id, hands_over, is_node_gone }, sending);
        // After the step, because a successor inherits the proof in it.
        self.forget_proof(id);
    }

    /// Carries out the asks of a step. Returns the wakers of the other contenders that must be woken.
    fn carry_out(&self, core: &mut EngineCore, by: ContenderId, asks: Vec<Ask>, sending: Sending) -> Vec<Waker> {
        let mut woken = Vec::new();
        for ask in asks {
            if ask.contender().is_some_and(|id| !core.contenders.contains_key(&id)) {
                // The contender was forgotten: the session has ended, and its user is gone.
                continue;
            }
            let told = match ask {
                Ask::Warn(warning) => {
                    core.logged_warnings.warn(&self.path, &warning);
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
                        // The first poll sends the request, so the requests of a step are sent in order. The contender
                        // polls it again with its own waker.
                        let mut context = Context::from_waker(Waker::noop());
                        if let Poll::Ready(answer) = request.as_mut().poll(&mut context) {
                            // A future that is done must not be polled again.
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

    /// Returns the request or the pause of an ask. Nothing is sent before its first poll.
    fn request(&self, core: &mut EngineCore, ask: Ask) -> (ContenderId, Request) {
        let requests = Requests::new(&self.remote, &self.path);
        match ask {
            Ask::Create(id, new_node, look) => {
                let viewpoint = core.queue.viewpoint(id);
                let entry = core.entry(id);
                let mark = entry.mark.clone();
                let node_data = Arc::clone(&entry.node_data);
                (id, unbudgeted(requests.create(id, mark, node_data, new_node, look, viewpoint)))
            }
            Ask::CreateParents(id) => (id, unbudgeted(requests.create_parents(id))),
            Ask::Find(id) => {
                let reads = self.reads.clone();
                let mark = core.entry(id).mark.clone();
                (id, unbudgeted(requests.find(id, reads, mark)))
            }
            Ask::List(id) => (id, unbudgeted(requests.list(id, self.reads.clone(), core.queue.viewpoint(id)))),
            Ask::ReadNote(id) => (id, unbudgeted(requests.read_note(id))),
            Ask::ReadNoteBeside(id) => (id, unbudgeted(requests.read_note_beside(id, core.node(id)))),
            Ask::CheckOwn(id) => (id, unbudgeted(requests.check_own(id, core.node(id)))),
            Ask::Watch(id, name) => (id, unbudgeted(requests.watch(id, name))),
            Ask::WatchParent(id, names) => {
                core.entry(id).is_setting_parent_watch = true;
                (id, unbudgeted(requests.watch_parent(names, core.parent_watches.may_be_set())))
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
                    Pause::ReplyLost | Pause::Throttled => entry.to_repeat.advance(),
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

    /// Returns the state of a contender, for the task that polls it. Moves the contender's new requests to `requests`. `waker` is
    /// woken if another contender's step adds requests for it or changes its state.
    pub(super) fn attend(
        &self,
        id: ContenderId,
        waker: &Waker,
        requests: &FuturesUnordered<Request>,
    ) -> ContenderState {
        let mut core = self.core.lock();
        let entry = core.entry(id);
        entry.sent.drain(..).for_each(|request| requests.push(request));
        entry.waker = Some(waker.clone());
        // The hold is not shown while the watch is being set. The holder does not poll, so the watch would stay on the server, and
        // the unfinished request would keep a closing session open. The answer follows right behind the answer to the `create`.
        let is_setting_parent_watch = entry.is_setting_parent_watch;
        match core.queue.state(id) {
            ContenderState::Holding { .. } if is_setting_parent_watch => ContenderState::Contending,
            state => state,
        }
    }

    /// Returns the node of a contender, once its name is known.
    pub(super) fn node(&self, id: ContenderId) -> Option<Made> {
        self.core.lock().queue.node(id).cloned()
    }

    /// Logs once that the server refuses the condition of a release.
    pub(super) fn warn_of_condition(&self, error: &Error) {
        self.core.lock().logged_warnings.warn_of_condition(&self.path, error);
    }

    /// Runs a task on the runtime of the session.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.remote.spawn(task);
    }

    /// Returns the error for a session that has ended.
    pub(super) fn session_ended(&self) -> Error {
        self.remote.ended()
    }

    /// Tells whether nothing is left to do for a contender.
    pub(super) fn is_over(&self, id: ContenderId) -> bool {
        matches!(self.core.lock().queue.state(id), ContenderState::Over(_))
    }

    /// Returns the proof that the session of a contender lives that was granted the lock.
    pub(super) fn proof(&self, id: ContenderId) -> Proof {
        let proof = self.core.lock().entry(id).proof.clone();
        proof.expect("BUG: a grant without a proof that the session lives")
    }

    /// Keeps the watch of the lock's node that was set by a contender. `None` if it could not be set.
    pub(super) fn keep_parent_watch(&self, id: ContenderId, names: Names, set: Option<(ParentCzxid, Watch)>) {
        let mut core = self.core.lock();
        core.hear_of_parents();
        core.entry(id).is_setting_parent_watch = false;
        core.tell_only(Event::ParentWatchSet(names, set.as_ref().map(|(parent, _)| *parent)));
        if let Some((_, watch)) = set {
            core.parent_watches.keep(names, watch);
        }
    }

    /// Lists the children of the lock's node and watches them. From then on, the engine does not watch the node itself.
    pub(crate) async fn watch_children(&self) -> Result<(Vec<String>, Watch), ClientError> {
        {
            let mut core = self.core.lock();
            core.parent_watches.forgo();
            core.hear_of_parents();
        }
        retry_lost_reply(|| self.remote.wire().watch_children(&self.path)).await
    }

    pub(super) fn note_proof(&self, id: ContenderId, proof: Proof) {
        self.core.lock().entry(id).proof = Some(proof);
    }

    pub(super) fn note_refusal(&self, id: ContenderId, error: Error) {
        self.core.lock().entry(id).refusal = Some(error);
    }

    /// Takes the reason why the server refused the contender's last request.
    pub(super) fn take_refusal(&self, id: ContenderId) -> Option<Error> {
        self.core.lock().entry(id).refusal.take()
    }

    /// Drops the engine's proof of a contender's hold.
    pub(super) fn forget_proof(&self, id: ContenderId) {
        // The proof is dropped after the lock is released.
        let _proof = self.core.lock().entry(id).proof.take();
    }

    /// Forgets a contender that is no longer polled: it is over, or its session has ended.
    pub(super) fn forget(&self, id: ContenderId) {
        let mut core = self.core.lock();
        core.queue.discard(id);
        let forgotten = core.contenders.remove(&id);
        drop(core);
        // The drop of requests and of a waker may run any code, so it comes after the lock is released.
        drop(forgotten);
    }
}

impl EngineCore {
    fn entry(&mut self, id: ContenderId) -> &mut ContenderIo {
        self.contenders.get_mut(&id).expect("BUG: a contender that was forgotten asks for something")
    }

    fn node(&self, id: ContenderId) -> Made {
        self.queue.node(id).cloned().expect("BUG: a contender without a node asks for it")
    }

    /// Reports to the queue which watches of the lock's node have fired.
    fn hear_of_parents(&mut self) {
        self.parent_watches.fired().into_iter().for_each(|event| self.tell_only(event));
    }

    /// Reports an event that the queue only notes: it asks for nothing.
    fn tell_only(&mut self, event: Event) {
        let mut asks = Vec::new();
        self.queue.on(event, &mut asks);
        debug_assert!(asks.is_empty(), "BUG: nobody carries out {asks:?}");
    }

    /// Gives the contender the proof of the contender that handed over the hold or shares it.
    fn inherit_proof(&mut self, id: ContenderId) {
        if let ContenderState::Holding { handed_over_by: Some(from), .. } = self.queue.state(id) {
            let proof = self.contenders.get(&from).and_then(|from| from.proof.clone());
            self.entry(id).proof = proof;
        }
    }
}

impl ContenderIo {
    fn new(mark: Mark, node_data: Arc<[u8]>) -> Self {
        Self {
            mark,
            node_data,
            proof: None,
            refusal: None,
            to_repeat: Backoff::to_repeat(),
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

/// Exempts a request from the poll budget of its Tokio task. Without budget, a request looks pending although its answer is ready.
fn unbudgeted(request: impl Future<Output = Answer> + Send + 'static) -> Request {
    Box::pin(tokio::task::unconstrained(request))
}
