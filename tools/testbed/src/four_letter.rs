//! ZooKeeper's four-letter words: one word out, text back, connection closed.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time within which a running server answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks the ZooKeeper server at `address`, given as `host:port`, a four-letter word such as `srvr`.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if the server does not answer within five seconds; the errors of the connection.
///
/// # Cancel safety
///
/// Nothing is lost.
pub async fn four_letter_word(address: &str, word: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Asks the ZooKeeper server at `address` for its version, such as `3.8.0`. `None`: it does not tell.
///
/// # Cancel safety
///
/// Nothing is lost.
pub async fn zookeeper_version(address: &str) -> Option<String> {
    version_in(&four_letter_word(address, "srvr").await.ok()?)
}

/// Finds the version in an answer to `srvr`: `Zookeeper version: 3.8.0-5a02a05, built on …`.
fn version_in(answer: &str) -> Option<String> {
    let line = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    line.split(['-', ',', ' ']).next().filter(|version| !version.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_number_alone() {
        let answer = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nLatency: 0\n";
        assert_eq!(version_in(answer).as_deref(), Some("3.8.0"));
        assert_eq!(version_in("Zookeeper version: 3.9.2, built on x\n").as_deref(), Some("3.9.2"));
        assert_eq!(version_in("srvr is not executed because it is not in the whitelist.\n"), None);
    }
}
