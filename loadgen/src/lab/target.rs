//! A service that already runs. It is taken only if its database and its ZooKeeper belong to it.

use std::time::Duration;

use testbed::node_data;

use crate::error::Error;
use crate::lab::postgres::Database;
use crate::lab::service::Service;
use crate::lab::source::TargetSettings;
use crate::lab::zookeeper::{IDENTITY, Servers};

/// Upper bound of the time to read it.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Connects to a service, its database and its ZooKeeper.
pub(super) async fn connect(target: &TargetSettings) -> Result<(Service, Database, Servers), Error> {
    let service = Service::new(target.urls.clone(), target.admin_token.clone())?;
    let database = Database::connect(&target.database_url).await?;
    let zookeeper = Servers::of(&target.zookeeper);
    service.ensure_distinct().await?;
    ensure_ensemble(&database, &zookeeper, target).await?;
    Ok((service, database, zookeeper))
}

/// Makes sure that these servers are the ensemble whose locks guard the sales of the database. The service keeps its identity
/// in both.
async fn ensure_ensemble(database: &Database, servers: &Servers, target: &TargetSettings) -> Result<(), Error> {
    let TargetSettings { zookeeper: connect_string, zookeeper_user, .. } = target;
    let Some((ensemble, noted)) = database.ensemble().await? else {
        let what = "the database names no ZooKeeper ensemble, so no instance has used it";
        return Err(Error::Reset(format!("{what}; is this the database of the service?")));
    };
    let found =
        match tokio::time::timeout(READ_WITHIN, node_data(connect_string, IDENTITY, zookeeper_user.as_deref())).await {
            Ok(Ok(data)) => data.map(|data| String::from_utf8_lossy(&data).into_owned()),
            // Servers that do not answer cannot be counted, so it does not matter whether they are the right ones.
            _ if servers.counters().await.is_none() => return Ok(()),
            Ok(Err(error @ testbed::Error::NotAuthorized { .. })) => {
                return Err(Error::Usage(format!("{error}; set ZOOKEEPER_AUTH as for the service")));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                return Err(Error::Usage(format!("ZooKeeper at {connect_string} does not tell which ensemble it is")));
            }
        };
    match found {
        Some(found) if found == ensemble => Ok(()),
        other => {
            let other = other.map_or_else(|| "has no service".to_owned(), |other| format!("is the ensemble {other}"));
            Err(Error::Usage(format!(
                "ZooKeeper at {connect_string} is not the one of the service: it {other}, and the database is guarded by the \
                 ensemble {ensemble} at {noted}; give that to --zookeeper"
            )))
        }
    }
}
