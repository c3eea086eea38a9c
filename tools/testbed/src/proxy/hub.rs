//! The thread of a proxy: it takes in connections and carries out orders.

use std::io;

use tokio::net::{TcpListener, TcpStream};

use super::lane::{Lane, LaneCommand, accept};
use crate::worker::Orders;

/// The owner of the listener, who takes in connections and carries out orders.
pub(super) struct Hub {
    listener: TcpListener,
    /// The same socket. The system knows of a connection as soon as the client does, and tokio a moment later.
    socket: std::net::TcpListener,
    lane: Lane,
}

impl Hub {
    pub(super) fn new(socket: std::net::TcpListener, lane: Lane) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket.try_clone()?)?;
        Ok(Self { listener, socket, lane })
    }

    /// Runs until nobody can give orders any more.
    pub(super) async fn run(mut self, mut orders: Orders<LaneCommand>) {
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    self.take_in_all();
                    self.lane.carry_out(order.command).await;
                    order.confirm();
                }
                client = accept(&self.listener) => self.lane.take_in(client, &[]),
                // Without connections it returns `false` at once. The pattern then disables the branch, so the loop
                // does not spin.
                true = self.lane.until_one_ended() => {}
            }
        }
    }

    /// Takes in the waiting connections: one that its client made before an order counts as open.
    fn take_in_all(&mut self) {
        while let Ok((client, _)) = self.socket.accept() {
            if client.set_nonblocking(true).is_ok()
                && let Ok(client) = TcpStream::from_std(client)
            {
                self.lane.take_in(client, &[]);
            }
        }
    }
}
