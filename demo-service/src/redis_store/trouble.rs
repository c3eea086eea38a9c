//! Why Redis carries out no command, and what helps.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::ANSWER_WITHIN;
use super::fitness::Unfit;

/// Why Redis did not carry out a command.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RedisTrouble {
    /// There was no connection when the command was to be sent.
    #[error(transparent)]
    Away(Arc<Self>),
    /// The connection could not be opened, or broke before the reply.
    #[error(
        "no connection to Redis: {0}; check --redis-url (REDIS_URL), for TLS --redis-ca (REDIS_CA), and whether the server runs"
    )]
    Connection(#[source] RedisError),
    /// The reply did not come in time.
    #[error(
        "Redis did not answer within {ANSWER_WITHIN:?}; check --redis-url (REDIS_URL), and whether the server is overloaded"
    )]
    Silent,
    /// The server refused. An operator must do something, unless the server is only busy.
    #[error("Redis refused: {source}; {remedy}")]
    Refused {
        /// What the server said.
        source: RedisError,
        /// What helps.
        remedy: &'static str,
    },
    /// The server is not fit for locks.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl RedisTrouble {
    /// Finds out what an error of a command means.
    pub(super) fn of(error: RedisError) -> Self {
        match remedy(&error) {
            Some(remedy) => Self::Refused { source: error, remedy },
            None => Self::Connection(error),
        }
    }

    /// Returns the code of a refusal of the server.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { source, .. } => source.code(),
            _ => None,
        }
    }

    /// Returns whether a command was sent and not answered. It may have been carried out, or may be later.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::Silent)
    }

    /// Returns whether a server refused a write because it has become a replica.
    pub(super) fn is_of_replica(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly))
    }

    /// Returns whether the server is not fit for locks.
    pub(super) fn is_unfit(&self) -> bool {
        matches!(self, Self::Unfit(_))
    }

    /// Returns whether the server refuses until somebody changes a setting, of the service or of the server. A full disk is none.
    pub fn is_of_setting(&self) -> bool {
        self.is_refusal() && !self.code().is_some_and(|code| code == "MISCONF" || BUSY.contains(&code))
    }

    /// Returns whether the server answered, and an operator must do something.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Away(why) => why.is_refusal(),
            Self::Connection(_) | Self::Silent => false,
            Self::Refused { .. } | Self::Unfit(_) => true,
        }
    }
}

/// Returns what helps against a refusal. `None` if the server did not refuse.
fn remedy(error: &RedisError) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::Client => return None,
        ErrorKind::AuthenticationFailed => return Some(PASSWORD),
        ErrorKind::Server(ServerErrorKind::ReadOnly) => {
            return Some("it is a replica by now: name the primary in --redis-url (REDIS_URL)");
        }
        _ => {}
    }
    Some(match error.code().unwrap_or_default() {
        "NOAUTH" | "WRONGPASS" => PASSWORD,
        "OOM" => "it has as much data as maxmemory allows: raise maxmemory, or delete what others keep there",
        "NOPERM" => {
            "allow its user the commands SET, GET, DEL, INCR, PEXPIRE, EVAL, EVALSHA, SCRIPT, PING and INFO on the keys seckill:*, and \
             for the gates @hash, @stream, @pubsub and TIME, on the channels seckill:* too"
        }
        "MISCONF" => "it cannot write to its disk: see its log",
        code if BUSY.contains(&code) => "it is busy, and is asked again",
        "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" => {
            "it is a node of a cluster: name a server that is none in --redis-url (REDIS_URL)"
        }
        "WRONGTYPE" => {
            "another program uses keys that begin with seckill: give the shop a server or a database number of its own"
        }
        _ => "see the log of the server",
    })
}

/// The refusals of a server that will answer later.
const BUSY: [&str; 4] = ["LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN"];
const PASSWORD: &str = "give its password in --redis-url (REDIS_URL), as redis://:PASSWORD@HOST:PORT/";
