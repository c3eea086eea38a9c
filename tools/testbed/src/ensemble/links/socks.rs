//! The part of a SOCKS 5 server that Java's sockets need (RFC 1928): connections to IPv4 addresses, without authentication.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;

/// Tells a client that it is connected. The address that the proxy itself connects from is left out.
pub(super) const CONNECTED: &[u8] = &[VERSION, 0, 0, IPV4, 0, 0, 0, 0, 0, 0];

/// Reads where a client wants to be connected to.
pub(super) async fn destination(client: &mut TcpStream) -> io::Result<SocketAddr> {
    let [version, methods] = read(client).await?;
    expect(version == VERSION)?;
    client.read_exact(&mut vec![0; methods.into()]).await?;
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(client).await?;
    expect([version, command, kind] == [VERSION, CONNECT, IPV4])?;
    let address: [u8; 4] = read(client).await?;
    Ok(SocketAddr::from((Ipv4Addr::from(address), u16::from_be_bytes(read(client).await?))))
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn expect(is_spoken: bool) -> io::Result<()> {
    if is_spoken { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
