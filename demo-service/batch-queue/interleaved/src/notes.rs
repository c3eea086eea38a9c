//! What a scene notes for its rules.

use std::sync::{Mutex, MutexGuard, PoisonError};

use campaign::{Sights, rules, sights};

rules! {
    OVERSOLD: "a SKU sells no more units than it has",
    TWICE: "a buyer gets one order at most",
    TOLD_SOLD: "a buyer that is told of an order has one",
    TOLD_NOTHING: "a buyer that is refused gets no order, neither before nor after",
    UNKNOWN: "an outcome is unknown only if something was sent or about to be",
    OVER: "nothing is under way for a buyer that leaves the queue",
    SERVED: "everybody is served",
    SLOTS: "an instance works on no more purchases than it has slots",
    ALONE: "one worker at a time serves a SKU in an instance",
    ORDER: "each batch is in the order of arrival, and leaves nobody behind that it may serve",
    SALE: "a batch serves the sales that its worker knows, and no later one",
    HOP: "a purchase makes one hop",
    OWN: "a purchase that stops a batch costs no other buyer anything",
    DIED: "a purchase is undecided only if its worker has died",
    TAKEN: "only a buyer that was taken waits until the deadline of the database",
    HANDED: "a purchase of another instance is not refused for a reason that lies here",
    LATE: "a buyer is refused as late at its deadline, and not before",
    COUNTED: "a purchase is counted as waiting while it is in the queue, and only then",
    EMPTY: "in the end no buyer and no slot is left",
    SOUND: "nothing panics",
}

sights! {
    Together: "a batch serves several buyers",
    Full: "a batch is full",
    Divided: "one purchase stops a batch, which is divided",
    PutBack: "a buyer comes back to the queue",
    RefusedLate: "a buyer that has not left hears that it is late",
    Left: "a buyer leaves the queue",
    TakenFirst: "a buyer that wants to leave hears a decision",
    GaveUpBefore: "a taken buyer gives up before its commit is sent",
    GaveUpAfter: "a taken buyer gives up after its commit was sent",
    Stopped: "a batch is rolled back, because a buyer has given up",
    UnknownSold: "a buyer hears of no outcome, and has an order",
    UnknownNothing: "a buyer hears of no outcome, and has no order",
    CommittedLater: "a commit arrives after its sender has given up",
    CrashedWaiting: "a worker dies while buyers wait",
    CrashedSelling: "a worker dies with a batch",
    Again: "a SKU gets another worker",
    Restarted: "a sale restarts while buyers wait",
    SoldOut: "a buyer comes too late for the last unit",
    Shed: "all slots are taken",
    HungUp: "a buyer hangs up, and its purchase ends without it",
    ToldElsewhere: "another instance decides a purchase",
    Undecided: "another instance sends a purchase back",
    Hop: "an instance gets a purchase that it cannot decide",
    Busy: "another instance has no slot for a batch",
    NotNow: "another instance takes no batch while its worker is away",
    InPart: "another instance has slots for a part of a batch",
    LinkBroken: "the link breaks while another instance works",
    Moved: "the sender of a batch becomes the owner meanwhile",
}

/// What is noted. The lock is never held across a choice of the scheduler.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Noted>);

#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) sights: Sights,
    pub(crate) broken: Option<&'static str>,
    /// Each line of the trace, if there is one.
    pub(crate) trace: Option<Vec<String>>,
}

impl Notes {
    pub(crate) fn new(is_traced: bool) -> Self {
        Self(Mutex::new(Noted { trace: is_traced.then(Vec::new), ..Noted::default() }))
    }

    /// Notes that a rule is broken, unless it `holds`. The first one counts.
    pub(crate) fn check(&self, holds: bool, rule: &'static str) {
        if !holds {
            self.tell(|| format!("broken: {rule}"));
            self.noted().broken.get_or_insert(rule);
        }
    }

    /// Notes a sight if `is_seen`.
    pub(crate) fn see(&self, is_seen: bool, sight: Sight) {
        self.noted().sights.note(is_seen, sight as usize);
    }

    /// Adds a line to the trace.
    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.noted().trace {
            trace.push(line());
        }
    }

    /// Returns what was noted.
    pub(crate) fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
