//! Free ports of 127.0.0.1, kept for a server also while it is not running.

use std::net::{Ipv4Addr, SocketAddr};

use program::FromSystem as _;
use tokio::net::TcpSocket;

use crate::Error;

/// Number of attempts when another program takes a port before the server listens there.
const ATTEMPTS_MAX: u32 = 5;

/// A port of 127.0.0.1 that the system gives to nobody else while this value lives.
///
/// It is bound but not listened at, so that connections are refused while no server runs. Otherwise the port of a stopped server
/// could become another server's, or the near end of some client's connection. Even a client that tries to reach the stopped
/// server could get it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    reservation: Option<TcpSocket>,
}

impl Port {
    /// Reserves any free port.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system has none.
    pub fn reserve() -> Result<Self, Error> {
        let (reservation, number) = bind(0).map_err(Error::system("find a free port on 127.0.0.1"))?;
        Ok(Self { number, reservation: Some(reservation) })
    }

    /// Returns its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Lets a server listen here.
    ///
    /// On Linux the port stays reserved: sockets that ask for the reuse of their address share it while only one of them
    /// listens, and the servers here all ask for that. Elsewhere it is given up for as long as the server has it.
    pub fn lend(&mut self) {
        if !cfg!(target_os = "linux") {
            self.reservation = None;
        }
    }

    /// Reserves the port again, once the server has ended.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when another program has taken it.
    pub fn take_back(&mut self) -> Result<(), Error> {
        if self.reservation.is_none() {
            let action = format!("reserve port {} of 127.0.0.1 again", self.number);
            let (reservation, _) = bind(self.number).map_err(Error::system(action))?;
            self.reservation = Some(reservation);
        }
        Ok(())
    }
}

fn bind(number: u16) -> std::io::Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    // Set before the bind: otherwise a server could not share the port while it is lent.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, number)))?;
    let number = socket.local_addr()?.port();
    Ok((socket, number))
}

/// Runs `start`, which reserves the ports that it needs, and runs it again when one of them was taken all the same.
pub(crate) async fn on_free_ports<T>(start: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let mut attempt = 1;
    loop {
        match start().await {
            Err(Error::Ended { log, .. }) if attempt < ATTEMPTS_MAX && is_port_taken(&log) => attempt += 1,
            result => return result,
        }
    }
}

/// Returns whether a log has the system's text for a used port, which is in English for all servers.
fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_connections_and_is_nobody_elses() {
        let port = Port::reserve().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let others: Vec<_> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        assert!(others.iter().all(|other| other.number() != port.number()));
    }

    #[test]
    fn a_server_can_listen_at_a_lent_port_time_and_again() {
        let mut port = Port::reserve().unwrap();
        for _ in 0..3 {
            port.lend();
            // The standard library's listener asks for the reuse of its address, as the servers do.
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).unwrap();
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            drop(listener);
            wait_until_refused(port.number());
            port.take_back().unwrap();
        }
    }

    /// Waits until nobody listens at the port. Another test may be starting a program, and that program has a copy of every
    /// descriptor between its fork and its exec.
    fn wait_until_refused(port: u16) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            assert!(Instant::now() < deadline, "a copy of the listener outlived the programs that were starting");
        }
    }
}
