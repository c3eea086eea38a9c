//! One build of the service: its instances, its database and its chroot.

use uuid::Uuid;

use crate::error::Error;
use crate::lab::instances::{InstanceSettings, RunningInstances};
use crate::lab::links::{LinkedServers, ServerAddresses};
use crate::lab::postgres::Database;
use crate::lab::servers::{OwnServers, Room};
use crate::lab::service::Service;
use crate::lab::service_program;
use crate::lab::source::{Program, ServiceSettings, TargetSettings};
use crate::lab::zookeeper::Servers;

/// One build of the service, ready to be measured.
pub(crate) struct Deployment {
    /// Name of the build, if two are compared.
    pub(crate) build: Option<String>,
    // The fields are dropped in this order: the instances close their sessions while their chroot still exists.
    /// Absent if the service runs already.
    pub(super) instances: Option<RunningInstances>,
    pub(crate) service: Service,
    pub(crate) database: Database,
    pub(crate) zookeeper: Servers,
    pub(crate) database_url: String,
    pub(crate) zookeeper_connect: String,
    pub(crate) admin_token: String,
    /// The servers that were started for the comparison, by name and process.
    pub(crate) server_processes: Vec<(&'static str, i32)>,
    rooms: Vec<Room>,
}

impl Deployment {
    /// Makes the room, then starts the instances. `number` counts the deployments from zero. `is_exposed`: whether faults may strike
    /// the links of the instances.
    pub(super) async fn start(
        settings: &ServiceSettings,
        (number, program): (usize, &Program),
        (servers, is_exposed): (&OwnServers, bool),
    ) -> Result<Deployment, Error> {
        let path = service_program::find(program)?;
        let is_alone = settings.programs.len() == 1;
        let (database, chroot) = tokio::try_join!(servers.database(number), servers.chroot(is_alone))?;
        let database_url = database.address.clone();
        let pooler = servers.pooler(&database_url).await?;
        let zookeeper_connect = chroot.address.clone();
        // Two random numbers of 122 bits each: nobody can guess the token, and no other run has the same.
        let admin_token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let addresses = ServerAddresses {
            database_url: pooler.as_ref().map_or(&database_url, |pooler| &pooler.address).clone(),
            zookeeper_connect: zookeeper_connect.clone(),
            redis_url: servers.redis_url().map(str::to_owned),
        };
        let linked = is_exposed.then(|| LinkedServers::of(&addresses)).transpose()?;
        let settings = InstanceSettings {
            service: settings.clone(),
            program: path,
            described: program.described(),
            servers: addresses,
            admin_token: admin_token.clone(),
        };
        let mut instances = RunningInstances::start(settings, linked.as_ref()).await?;
        let service = Service::new(instances.urls(), admin_token.clone())?;
        instances.until_ready(&service).await?;
        Ok(Deployment {
            build: program.name.clone(),
            instances: Some(instances),
            service,
            database: Database::connect(&database_url).await?,
            zookeeper: Servers::of(&zookeeper_connect),
            database_url,
            zookeeper_connect,
            admin_token,
            server_processes: servers.processes(),
            rooms: pooler.into_iter().chain([database, chroot]).collect(),
        })
    }

    /// Takes a service that already runs, if its parts belong together, and starts nothing.
    pub(super) async fn connect(target: &TargetSettings) -> Result<Deployment, Error> {
        let (service, database, zookeeper) = super::target::connect(target).await?;
        Ok(Deployment {
            build: None,
            instances: None,
            service,
            database,
            zookeeper,
            database_url: target.database_url.clone(),
            zookeeper_connect: target.zookeeper.clone(),
            admin_token: target.admin_token.clone(),
            server_processes: Vec::new(),
            rooms: Vec::new(),
        })
    }

    /// Describes the end of an instance, if one has ended.
    pub(super) fn obituary(&mut self) -> Option<Error> {
        self.instances.as_mut().and_then(RunningInstances::obituary)
    }

    /// Tells the instances to stop.
    pub(super) fn request_stop(&self) {
        self.instances.iter().for_each(RunningInstances::request_stop);
    }

    /// Waits for the end of the instances, and returns their rooms.
    pub(super) async fn stop(self) -> Result<Vec<Room>, Error> {
        if let Some(instances) = self.instances {
            instances.stop().await?;
        }
        Ok(self.rooms)
    }
}
