//! The connections between the servers of an ensemble, and their faults.

mod socks;
mod switchboard;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use program::FromSystem as _;

use self::switchboard::{Change, Link, Switchboard};
use crate::proxy::lane::LaneCommand;
use crate::proxy::relay::End;
use crate::worker::Worker;
use crate::zookeeper::configuration::Peer;
use crate::{Ensemble, Error};

/// A fault of the links between servers of an [`Ensemble`].
///
/// | fault | open connections | later connections |
/// |---|---|---|
/// | [`Cut`](Self::Cut) | closed at both ends | refused |
/// | [`Blackhole`](Self::Blackhole) | open at both ends, nothing passes | not answered |
/// | [`HalfOpen`](Self::HalfOpen) | closed at one end; open at the other one, and silent | refused or not answered, likewise |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// Both servers notice at once.
    Cut,
    /// Both servers notice only the silence.
    Blackhole,
    /// One server notices at once, and the other one only the silence.
    HalfOpen,
}

const CUT: &[LaneCommand] = &[LaneCommand::Refuse, LaneCommand::Cut];
const BLACKHOLE: &[LaneCommand] = &[LaneCommand::Blackhole, LaneCommand::Accept];
const SILENT_FOR_CLIENT: &[LaneCommand] =
    &[LaneCommand::Blackhole, LaneCommand::Strand(End::Client), LaneCommand::Accept];
const SILENT_FOR_SERVER: &[LaneCommand] = &[LaneCommand::Refuse, LaneCommand::Strand(End::Server)];
const HEALED: &[LaneCommand] = &[LaneCommand::Accept, LaneCommand::Deliver, LaneCommand::Delay(Duration::ZERO)];

impl LinkFault {
    /// Returns the commands for a link. `silent` is the end that notices nothing of a half-open connection.
    fn commands(self, silent: End) -> &'static [LaneCommand] {
        match (self, silent) {
            (Self::Cut, _) => CUT,
            (Self::Blackhole, _) => BLACKHOLE,
            (Self::HalfOpen, End::Client) => SILENT_FOR_CLIENT,
            (Self::HalfOpen, End::Server) => SILENT_FOR_SERVER,
        }
    }
}

/// The proxies of an ensemble's servers, one each.
#[derive(Debug)]
pub(super) struct Links {
    ports: Vec<u16>,
    worker: Worker<Vec<Change>>,
}

impl Links {
    pub(super) async fn start(peers: Vec<Peer>) -> Result<Self, Error> {
        let failed = || Error::system("start the proxies of an ensemble");
        let listeners = peers.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>().map_err(failed())?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
        let ports = addresses.map_err(failed())?.iter().map(std::net::SocketAddr::port).collect();
        let prepare = move |orders| Ok(Switchboard::new(listeners, &peers)?.run(orders));
        Ok(Self { ports, worker: Worker::start("testbed-links", prepare).await.map_err(failed())? })
    }

    /// Returns the port of the proxy of a server.
    pub(super) fn port(&self, server: usize) -> u16 {
        self.ports[server]
    }
}

/// Faults of the links between the servers, for an ensemble with [`EnsembleConfig::links`](crate::EnsembleConfig::links).
///
/// A link is all that one server opens to another. A follower opens a connection to its leader and replicates over it. Each
/// server opens connections to the others for votes. Of two servers, the one with the higher number opens the connection that
/// lasts, and the other one only asks for it. All of them pass a proxy. Clients do not, and are served for as long as their
/// server can.
///
/// A fault is in force when its call returns, and replaces an earlier fault of the link. It outlasts a restart of the servers.
/// The calls block, for about a millisecond.
impl Ensemble {
    /// Breaks all links between a server and the others, in both directions. With [`LinkFault::HalfOpen`] the others notice at
    /// once, and this server only the silence.
    ///
    /// After [`LinkFault::Cut`] a leader gives up at its next tick. A leader that only hears nothing gives up after five ticks,
    /// or up to a tick to either side. Until then it answers reads and `sync`, and no write.
    ///
    /// After a [`LinkFault::Blackhole`] the followers give up at about the same time as their leader, so that it may or may not
    /// meet its successor. After [`LinkFault::HalfOpen`] they elect at once, long before it gives up.
    ///
    /// The five ticks count for a follower that serves. The silence of one that is still catching up is borne for 30 s, or for
    /// ten ticks if they are longer, although `zk_synced_followers` counts it already.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, and when the ensemble has no links that could fail.
    pub fn isolate(&self, index: usize, fault: LinkFault) -> Result<(), Error> {
        self.change_links_of(index, |silent| fault.commands(silent).to_vec())
    }

    /// Holds each byte between a server and the others for `latency` in each direction, as far as links are not broken.
    ///
    /// # Errors
    ///
    /// As for [`isolate`](Self::isolate).
    pub fn delay(&self, index: usize, latency: Duration) -> Result<(), Error> {
        self.change_links_of(index, |_| vec![LaneCommand::Delay(latency)])
    }

    /// Heals all links between a server and the others.
    ///
    /// What a black hole held back arrives late. Half-open connections are closed.
    ///
    /// # Errors
    ///
    /// As for [`isolate`](Self::isolate).
    pub fn heal(&self, index: usize) -> Result<(), Error> {
        self.change_links_of(index, |_| HEALED.to_vec())
    }

    /// Breaks the link from one server to another. With [`LinkFault::HalfOpen`] the server `from` notices at once, and the
    /// server `to` only the silence.
    ///
    /// # Errors
    ///
    /// As for [`isolate`](Self::isolate); [`Error::Setting`] also when both are the same server.
    pub fn break_link(&self, from: usize, to: usize, fault: LinkFault) -> Result<(), Error> {
        self.change_link(from, to, fault.commands(End::Server))
    }

    /// Heals the link from one server to another, as [`heal`](Self::heal) does.
    ///
    /// # Errors
    ///
    /// As for [`break_link`](Self::break_link).
    pub fn heal_link(&self, from: usize, to: usize) -> Result<(), Error> {
        self.change_link(from, to, HEALED)
    }

    /// Gives commands to the links of a server. `commands` has the commands for each end of a link that the server is.
    fn change_links_of(&self, index: usize, commands: impl Fn(End) -> Vec<LaneCommand>) -> Result<(), Error> {
        self.server(index)?;
        let others = (0..self.servers.len()).filter(|&other| other != index);
        let changes = others.flat_map(|other| {
            [
                Change { link: Link { from: index, to: other }, commands: commands(End::Client) },
                Change { link: Link { from: other, to: index }, commands: commands(End::Server) },
            ]
        });
        self.change_links(changes.collect())
    }

    fn change_link(&self, from: usize, to: usize, commands: &'static [LaneCommand]) -> Result<(), Error> {
        self.server(from)?;
        self.server(to)?;
        if from == to {
            return Err(Error::Setting(format!("server {from} has no link to itself")));
        }
        self.change_links(vec![Change { link: Link { from, to }, commands: commands.to_vec() }])
    }

    fn change_links(&self, changes: Vec<Change>) -> Result<(), Error> {
        let Some(links) = &self.links else {
            let remedy = "start it with `EnsembleConfig::links`";
            return Err(Error::Setting(format!("this ensemble has no links that could fail; {remedy}")));
        };
        links.worker.order(changes);
        Ok(())
    }
}
