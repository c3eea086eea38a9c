//! The links of an instance: a proxy to each of its servers, and one in front of it for its buyers.

use std::net::{Ipv4Addr, SocketAddr};

use reqwest::Url;
use testbed::Proxy;

use crate::error::Error;

/// The addresses of the servers of an instance.
#[derive(Debug, Clone)]
pub(super) struct ServerAddresses {
    pub(super) database_url: String,
    pub(super) zookeeper_connect: String,
    pub(super) redis_url: Option<String>,
}

/// The servers that instances reach through proxies.
#[derive(Debug)]
pub(super) struct LinkedServers {
    database: Url,
    zookeeper: Vec<String>,
    redis: Option<Url>,
}

/// The proxies around an instance.
pub(crate) struct InstanceLinks {
    /// To each ZooKeeper server, in their order.
    pub(crate) zookeeper: Vec<Proxy>,
    pub(crate) postgres: Proxy,
    /// Absent if no strategy needs Redis.
    pub(crate) redis: Option<Proxy>,
    /// From the buyers to the instance.
    pub(crate) buyers: Proxy,
    /// The addresses of the proxies to the servers.
    servers: ServerAddresses,
}

impl LinkedServers {
    /// Takes servers that were started for this program.
    pub(super) fn of(addresses: &ServerAddresses) -> Result<LinkedServers, Error> {
        Ok(LinkedServers {
            database: url(&addresses.database_url)?,
            zookeeper: addresses.zookeeper_connect.split(',').map(str::to_owned).collect(),
            redis: addresses.redis_url.as_deref().map(url).transpose()?,
        })
    }
}

impl InstanceLinks {
    /// Starts the proxies around the instance at this port.
    pub(super) async fn start(servers: &LinkedServers, port: u16) -> Result<InstanceLinks, Error> {
        let mut zookeeper = Vec::with_capacity(servers.zookeeper.len());
        for server in &servers.zookeeper {
            zookeeper.push(Proxy::start(server).await?);
        }
        let connect_strings: Vec<String> = zookeeper.iter().map(Proxy::connect_string).collect();
        let (postgres, database_url) = proxied(&servers.database).await?;
        let (redis, redis_url) = match &servers.redis {
            Some(redis) => proxied(redis).await.map(|(proxy, url)| (Some(proxy), Some(url)))?,
            None => (None, None),
        };
        let buyers = Proxy::start(&address(port).to_string()).await?;
        let zookeeper_connect = connect_strings.join(",");
        let servers = ServerAddresses { database_url, zookeeper_connect, redis_url };
        Ok(InstanceLinks { zookeeper, postgres, redis, buyers, servers })
    }

    /// Returns the addresses at which the instance finds its servers.
    pub(super) fn servers(&self) -> &ServerAddresses {
        &self.servers
    }

    /// Returns the base URL at which buyers find the instance.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.buyers.connect_string())
    }

    /// Leads buyers to another port of the instance.
    pub(super) fn lead_to(&self, port: u16) {
        self.buyers.lead_to(address(port));
    }

    /// Ends all faults of the links.
    pub(super) fn heal(&self) {
        let to_servers = self.zookeeper.iter().chain([&self.postgres]).chain(&self.redis);
        for proxy in to_servers.chain([&self.buyers]) {
            proxy.heal();
        }
    }
}

/// Starts a proxy in front of the server of a URL. Returns it with its own URL.
async fn proxied(server: &Url) -> Result<(Proxy, String), Error> {
    let authority = format!("{}:{}", server.host_str().unwrap_or_default(), server.port().unwrap_or_default());
    let proxy = Proxy::start(&authority).await?;
    let mut url = server.clone();
    url.set_port(Some(proxy.port())).map_err(|()| Error::Generator(format!("{server} takes no port")))?;
    Ok((proxy, url.into()))
}

fn url(text: &str) -> Result<Url, Error> {
    Url::parse(text).map_err(|error| Error::Generator(format!("{text}: {error}")))
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
