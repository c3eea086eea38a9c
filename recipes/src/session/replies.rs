//! What the reply to a request says, and requests that are repeated until there is one.

use std::future::Future;

use zookeeper_client::Error as ClientError;

use crate::session::backoff::Backoff;

/// Whether the answer to a `create` says for certain that it has made no node.
pub(crate) fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoNode
            | ClientError::NodeExists
            | ClientError::NoAuth
            | ClientError::InvalidAcl
            | ClientError::BadArguments(_)
            | ClientError::NoChildrenForEphemerals
            | ClientError::QuotaExceeded
            | ClientError::NotReadOnly
            | ClientError::Throttled
            | ClientError::MarshallingError
            | ClientError::Unimplemented
    )
}

/// Repeats a request whose reply was lost until it is answered or the session ends. A request waits for a connection by
/// itself; the pauses are for a connection that breaks again each time.
pub(crate) async fn retry_lost_reply<T, F>(mut request: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut backoff = Backoff::after_lost_reply();
    loop {
        match request().await {
            Err(ClientError::ConnectionLoss) => backoff.pause().await,
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_rules_out_a_node_is_a_refusal() {
        for refusal in [
            ClientError::NoNode,
            ClientError::NodeExists,
            ClientError::NoAuth,
            ClientError::InvalidAcl,
            ClientError::BadArguments(&"path"),
            ClientError::NoChildrenForEphemerals,
            ClientError::QuotaExceeded,
            ClientError::NotReadOnly,
            ClientError::Throttled,
        ] {
            assert!(is_refusal(&refusal), "{refusal:?}");
        }
        for uncertain in [
            ClientError::ConnectionLoss,
            ClientError::Timeout,
            ClientError::SessionExpired,
            ClientError::SessionMoved,
            ClientError::ClientClosed,
            ClientError::UnexpectedErrorCode(-7),
            ClientError::UnexpectedError("a reply that makes no sense".to_owned()),
        ] {
            assert!(!is_refusal(&uncertain), "{uncertain:?}");
        }
    }
}
