//! One question and its answer in the protocol of Redis. This crate has no client for it.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Sends a command on a connection of its own, after the password if there is one. A refusal is an error with the server's text.
pub(super) async fn ask(port: u16, password: Option<&str>, words: &[&str]) -> io::Result<Option<String>> {
    let mut stream = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?);
    if let Some(password) = password {
        exchange(&mut stream, &["AUTH", password]).await?;
    }
    exchange(&mut stream, words).await
}

async fn exchange(stream: &mut BufReader<TcpStream>, words: &[&str]) -> io::Result<Option<String>> {
    stream.write_all(request(words).as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+" | ":", text)) => Ok(Some(text.to_owned())),
        Some(("-", refusal)) => Err(io::Error::other(refusal)),
        Some(("$", "-1")) => Ok(None),
        Some(("$", length)) => text(stream, length).await.map(Some),
        _ => Err(unknown(line)),
    }
}

fn request(words: &[&str]) -> String {
    let words_of = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words_of.collect::<String>())
}

/// Reads a text of `length` bytes and the line end behind it.
async fn text(stream: &mut BufReader<TcpStream>, length: &str) -> io::Result<String> {
    let length: usize = length.parse().map_err(|_| unknown(length))?;
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    stream.read_exact(&mut [0; 2]).await?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn unknown(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an answer that is not understood: {line:?}"))
}
