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
