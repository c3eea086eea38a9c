//! The stand: ZooKeeper servers, Redis, processes of contenders, and a proxy on each link. Faults strike it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use testbed::{Ensemble, EnsembleConfig, Proxy, Redis, RedisConfig, zookeeper_version};
use tokio::time::{sleep, timeout};
use weather::{ComingFault, Harm, Site, Stand, begin_at_ensemble, disturb, end_at_ensemble};
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

use crate::TortureError;
use crate::contenders::{ContenderProcess, ContenderSettings, ProcessOrder, RoundShared};
use crate::history::Deletion;
use crate::library::{Library, LibraryServer};
use crate::lines::now;

/// ZooKeeper servers.
pub(crate) const SERVERS: usize = 3;
/// The unit of time of the ZooKeeper servers.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The timeout of the sessions of contenders, and the lifetime of a lock in Redis.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// The session timeouts that servers grant.
const SESSION_TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(120);
/// The session of the campaign itself outlives every fault.
const LASTING: Duration = Duration::from_secs(120);
/// How long a fault waits for a holder that it can meet, and a lone one, amid which nothing else keeps a process from a hold.
const HOLDER_WITHIN: Duration = Duration::from_secs(4);
const HOLDER_WITHIN_ALONE: Duration = Duration::from_secs(15);
/// How long a holder holds on after a fault that is over as soon as it has begun.
const HOLDS_ON: Duration = Duration::from_secs(2);
/// Where the locks are.
const ROOT: &str = "/torture";
/// The locks whose nodes somebody may delete.
const DELETABLE: [&str; 4] = ["/torture/queue", "/torture/read-write", "/torture/semaphore-mutex", "/torture/leader"];

/// A node that belongs to no session, with its data.
type LastingNode = (String, Vec<u8>);

/// Where the faults of a campaign strike.
pub(crate) const SITES: [Site; 6] =
    [Site::ZookeeperLink, Site::RedisLink, Site::Zookeeper, Site::Redis, Site::Contender, Site::Nodes];

/// The servers of a campaign.
pub(crate) struct StandServers {
    pub(crate) ensemble: Ensemble,
    redis: Option<Redis>,
    /// The session of the campaign itself, past all proxies.
    client: Mutex<Client>,
}

/// A process and its links.
pub(crate) struct LinkedProcess {
    pub(crate) contenders: ContenderProcess,
    /// To each server.
    links: Vec<Proxy>,
}

/// The servers and the processes of a round.
pub(crate) struct LockStand<'a> {
    pub(crate) servers: &'a mut StandServers,
    pub(crate) processes: Vec<LinkedProcess>,
    pub(crate) shared: RoundShared,
}

impl StandServers {
    /// Starts the servers.
    pub(crate) async fn start(with_redis: bool) -> Result<StandServers, TortureError> {
        let config = EnsembleConfig {
            servers: SERVERS,
            tick_time: TICK,
            session_timeouts: Some(SESSION_TIMEOUTS),
            links: true,
            clocks: true,
            ..EnsembleConfig::default()
        };
        let ensemble = Ensemble::start(config).await?;
        let redis = if with_redis { Some(Redis::start(RedisConfig::default()).await?) } else { None };
        let client = Mutex::new(connect(&ensemble).await?);
        Ok(StandServers { ensemble, redis, client })
    }

    /// Returns the addresses of a library's servers.
    fn addresses(&self, library: &Library) -> Vec<String> {
        match (library.server, &self.redis) {
            (LibraryServer::Redis, Some(redis)) => vec![format!("127.0.0.1:{}", redis.port())],
            _ => self.ensemble.connect_strings(),
        }
    }

    /// Returns the version of ZooKeeper, if a server tells it.
    pub(crate) async fn version(&self) -> Option<String> {
        for server in self.ensemble.connect_strings() {
            let version = zookeeper_version(&server).await;
            if version.is_some() {
                return version;
            }
        }
        None
    }

    /// Returns the nodes of contenders that are below the locks.
    pub(crate) async fn nodes(&self) -> Result<Vec<String>, TortureError> {
        let mut left = Vec::new();
        let mut paths = vec![ROOT.to_owned()];
        while let Some(path) = paths.pop() {
            for child in self.ask(async |client| client.list_children(&path).await).await?.unwrap_or_default() {
                let child = format!("{path}/{child}");
                let is_contender =
                    child.len() > 10 && child[child.len() - 10..].bytes().all(|byte| byte.is_ascii_digit());
                if is_contender { left.push(child) } else { paths.push(child) }
            }
        }
        Ok(left)
    }

    /// Returns the first node of each queue, and the number of the session that owns it.
    pub(crate) async fn first_nodes(&self) -> Result<Vec<(String, i64)>, TortureError> {
        let mut first: BTreeMap<String, String> = BTreeMap::new();
        for node in self.nodes().await? {
            let (queue, _) = node.rsplit_once('/').unwrap_or_default();
            let number = |node: &str| node[node.len() - 10..].to_owned();
            let before = first.get(queue);
            if before.is_none_or(|before| number(&node) < number(before)) {
                first.insert(queue.to_owned(), node);
            }
        }
        let mut owned = Vec::new();
        for node in first.into_values() {
            let stat = self.ask(async |client| client.check_stat(&node).await).await?.flatten();
            owned.extend(stat.map(|stat| (node, stat.ephemeral_owner)));
        }
        Ok(owned)
    }

    /// Asks until there is an answer, in a new session if a fault has ended the old one. `None`: there is no such node, or it has children.
    async fn ask<T>(
        &self,
        mut ask: impl AsyncFnMut(Client) -> Result<T, ClientError>,
    ) -> Result<Option<T>, TortureError> {
        loop {
            let client = self.client.lock().clone();
            match ask(client).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(ClientError::NoNode | ClientError::NotEmpty) => return Ok(None),
                Err(ClientError::ConnectionLoss) => sleep(Duration::from_millis(50)).await,
                Err(ClientError::SessionExpired) => {
                    let client = connect(&self.ensemble).await?;
                    *self.client.lock() = client;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes the nodes below a lock, and the lock's own, as somebody may do by hand. Returns those that belong to no session, too, children
    /// first.
    async fn delete(&self, path: &str) -> Result<(Deletion, Vec<LastingNode>), TortureError> {
        let mut deletion = Deletion { path: path.to_owned(), sent: now(), answered: 0, czxids: Vec::new() };
        let mut lasting = Vec::new();
        let children = self.ask(async |client| client.list_children(path).await).await?.unwrap_or_default();
        for child in children {
            let child = format!("{path}/{child}");
            let grandchildren = self.ask(async |client| client.list_children(&child).await).await?.unwrap_or_default();
            for node in grandchildren.iter().map(|name| format!("{child}/{name}")).chain([child.clone()]) {
                lasting.extend(self.delete_one(&node, &mut deletion).await?);
            }
        }
        lasting.extend(self.delete_one(path, &mut deletion).await?);
        deletion.answered = now();
        Ok((deletion, lasting))
    }

    /// Makes nodes anew, with their old data. Children come first in the list.
    async fn remake(&self, lasting: Vec<LastingNode>) -> Result<(), TortureError> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for (node, data) in lasting.into_iter().rev() {
            match self.ask(async |client| client.create(&node, &data, &options).await).await {
                // A contender may have been faster.
                Ok(_) | Err(TortureError::Client(ClientError::NodeExists)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes a node. Returns it with its data if it belongs to no session.
    async fn delete_one(&self, node: &str, deletion: &mut Deletion) -> Result<Option<LastingNode>, TortureError> {
        let Some((data, stat)) = self.ask(async |client| client.get_data(node).await).await? else { return Ok(None) };
        deletion.czxids.push(stat.czxid);
        self.ask(async |client| client.delete(node, None).await).await?;
        let is_lasting = matches!(stat.ephemeral_owner, 0 | i64::MIN);
        Ok(is_lasting.then(|| (node.to_owned(), data)))
    }
}

/// Opens a session of the campaign itself.
async fn connect(ensemble: &Ensemble) -> Result<Client, ClientError> {
    Client::connector().with_session_timeout(LASTING).connect(&ensemble.connect_string()).await
}

impl<'a> LockStand<'a> {
    /// Starts the processes of a round, each behind proxies of its own.
    pub(crate) async fn start(
        servers: &'a mut StandServers,
        libraries: &[Library],
        shared: RoundShared,
        (seed, mutex_only): (u64, bool),
    ) -> Result<LockStand<'a>, TortureError> {
        let starting = libraries.iter().enumerate().map(|(number, library)| {
            let addresses = servers.addresses(library);
            let shared = shared.clone();
            async move {
                let mut links = Vec::new();
                for address in addresses {
                    links.push(Proxy::start(&address).await?);
                }
                let connect_string = links.iter().map(Proxy::connect_string).collect::<Vec<_>>().join(",");
                let settings = ContenderSettings {
                    library: library.clone(),
                    connect_string,
                    session_timeout: SESSION_TIMEOUT,
                    number,
                    seed,
                    mutex_only,
                };
                let contenders = ContenderProcess::start(settings, shared).await?;
                Ok::<_, testbed::Error>(LinkedProcess { contenders, links })
            }
        });
        let processes = try_join_all(starting).await?;
        Ok(LockStand { servers, processes, shared })
    }

    /// Ends every fault, and starts what is down. Then waits until the servers serve.
    pub(crate) async fn calm(&mut self) -> Result<(), TortureError> {
        let ensemble = &mut self.servers.ensemble;
        ensemble.revive().await?;
        ensemble.until_serving().await?;
        if let Some(redis) = &mut self.servers.redis {
            if redis.pid().is_some() { redis.resume()? } else { redis.restart().await? }
        }
        for process in &self.processes {
            process.links.iter().for_each(Proxy::heal);
            answered(process.contenders.order(ProcessOrder::Resume).await)?;
            answered(process.contenders.order(ProcessOrder::Launch).await)?;
        }
        Ok(())
    }

    async fn let_go(&self, coming: &ComingFault) {
        self.processes[coming.process].contenders.order(|answer| ProcessOrder::HoldOn(false, answer)).await;
    }

    fn links(&self, coming: &ComingFault) -> impl Iterator<Item = &Proxy> {
        let links = &self.processes[coming.process].links;
        coming.servers(links.len()).filter_map(|server| links.get(server))
    }

    fn redis(&mut self) -> Result<&mut Redis, TortureError> {
        self.servers.redis.as_mut().ok_or(TortureError::NothingToStrike)
    }

    async fn begin_now(&mut self, coming: &ComingFault) -> Result<(), TortureError> {
        let contenders = &self.processes[coming.process].contenders;
        match (coming.fault.site, coming.fault.harm) {
            (Site::ZookeeperLink | Site::RedisLink, _) => self.links(coming).for_each(|link| disturb(link, coming)),
            (Site::Zookeeper, _) => begin_at_ensemble(&mut self.servers.ensemble, coming).await?,
            (Site::Redis, Harm::Killed) => self.redis()?.kill().await?,
            (Site::Redis, _) => self.redis()?.pause()?,
            (Site::Contender, Harm::Frozen) => answered(contenders.order(ProcessOrder::Pause).await)?,
            (Site::Contender, Harm::Stopped) => answered(contenders.order(ProcessOrder::Stop).await)?,
            (Site::Contender, _) => answered(contenders.order(ProcessOrder::Kill).await)?,
            (Site::Nodes, _) => {
                let shares = [0.25, 0.5, 0.75, 1.0].into_iter().zip(DELETABLE);
                let path = shares.filter(|(share, _)| coming.strength <= *share).map(|(_, path)| path).next();
                let path = path.unwrap_or(DELETABLE[0]);
                let (deletion, lasting) = self.servers.delete(path).await?;
                self.shared.history.lock().deletions.push(deletion);
                if coming.fault.harm == Harm::Remade {
                    self.servers.remake(lasting).await?;
                }
            }
            _ => return Err(TortureError::NothingToStrike),
        }
        Ok(())
    }
}

impl Stand for LockStand<'_> {
    type Error = TortureError;

    /// Lets a process hold on while a fault strikes, and waits for a holder.
    async fn prepare(&mut self, coming: &ComingFault) {
        let contenders = &self.processes[coming.process].contenders;
        let within = if coming.is_alone { HOLDER_WITHIN_ALONE } else { HOLDER_WITHIN };
        // A fault may meet no holder.
        let _ = timeout(within, contenders.order(|answer| ProcessOrder::HoldOn(true, answer))).await;
    }

    async fn begin(&mut self, coming: &ComingFault) -> Result<(), TortureError> {
        let begun = self.begin_now(coming).await;
        if coming.fault.harm.is_instant() {
            // The holder may be told of it, and nobody else shall hold meanwhile.
            sleep(HOLDS_ON).await;
            self.let_go(coming).await;
        }
        begun
    }

    async fn end(&mut self, coming: &ComingFault) -> Result<(), TortureError> {
        let contenders = &self.processes[coming.process].contenders;
        match (coming.fault.site, coming.fault.harm) {
            (Site::ZookeeperLink | Site::RedisLink, _) => self.links(coming).for_each(Proxy::heal),
            (Site::Zookeeper, _) => end_at_ensemble(&mut self.servers.ensemble, coming, SESSION_TIMEOUTS).await?,
            (Site::Redis, Harm::Killed) => self.redis()?.restart().await?,
            (Site::Redis, _) => self.redis()?.resume()?,
            (Site::Contender, Harm::Frozen) => answered(contenders.order(ProcessOrder::Resume).await)?,
            (Site::Contender, _) => answered(contenders.order(ProcessOrder::Launch).await)?,
            _ => return Err(TortureError::NothingToStrike),
        }
        self.let_go(coming).await;
        Ok(())
    }
}

/// A process whose task has ended answers nothing.
pub(crate) fn answered(answer: Option<Result<(), testbed::Error>>) -> Result<(), TortureError> {
    answer.unwrap_or(Err(testbed::Error::Setting("a process of contenders is gone".to_owned()))).map_err(Into::into)
}
