//! Replies that rule out a node, and the repetition of requests that were not answered.

use std::future::Future;
use std::time::{Duration, Instant};

use zookeeper_client::Error as ClientError;

use crate::session::backoff::Backoff;

/// Tells whether an error shows for certain that a `create` made no node.
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

/// Sends a request, and repeats it while its reply is lost, or the server throttles it: such a request was not carried out. Ends
/// with an answer or with the end of the session.
///
/// Each request waits for a connection anyway. The pauses are for a connection that breaks again each time, and for a server that
/// has too much to do. A read may be shared by a crowd, and one request that is throttled must not fail all of its acquires. Every
/// other error fails a contender that reads alone, too.
pub(crate) async fn retry_lost_reply<T, F>(request: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    repeat(request, |error| matches!(error, ClientError::ConnectionLoss | ClientError::Throttled)).await
}

/// Sends a request over one connection, and repeats it while the server throttles it.
pub(crate) async fn retry_throttled<T, F>(request: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    retry_throttled_within(Duration::MAX, request).await
}

/// Sends a request over one connection, and repeats it while the server throttles it. Fails with the first throttled reply after
/// `within`.
pub(crate) async fn retry_throttled_within<T, F>(within: Duration, request: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let begun = Instant::now();
    repeat(request, |error| *error == ClientError::Throttled && begun.elapsed() < within).await
}

async fn repeat<T, F>(
    mut request: impl FnMut() -> F,
    is_to_repeat: impl Fn(&ClientError) -> bool,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut backoff = Backoff::to_repeat();
    loop {
        match request().await {
            Err(error) if is_to_repeat(&error) => backoff.pause().await,
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // L48
    #[tokio::test]
    async fn a_request_that_is_lost_or_throttled_is_repeated() {
        let mut replies = [Err(ClientError::Throttled), Err(ClientError::ConnectionLoss), Ok(1), Ok(2)].into_iter();
        let answered = retry_lost_reply(|| std::future::ready(replies.next().unwrap())).await;
        assert_eq!(answered, Ok(1));
        assert_eq!(retry_lost_reply(async || Err::<(), _>(ClientError::NoAuth)).await, Err(ClientError::NoAuth));
    }

    // L45
    #[tokio::test]
    async fn a_bounded_repetition_ends_with_the_throttled_reply() {
        let mut replies = [Err(ClientError::Throttled), Ok(1)].into_iter();
        let once = retry_throttled_within(Duration::ZERO, || std::future::ready(replies.next().unwrap())).await;
        assert_eq!(once, Err(ClientError::Throttled));
        let throttled = || std::future::ready(Err::<(), _>(ClientError::Throttled));
        assert_eq!(retry_throttled_within(Duration::from_millis(50), throttled).await, Err(ClientError::Throttled));
    }

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
