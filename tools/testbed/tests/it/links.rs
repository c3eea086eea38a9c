//! Links between the servers of an ensemble that fail.

use std::time::{Duration, Instant};

use testbed::{Ensemble, EnsembleConfig, Error, LinkFault};
use zookeeper_client::Client;

use crate::support::{PERSISTENT, client_of, leader_other_than, soon, until_followed, write};

async fn linked(tick_time: Duration) -> Ensemble {
    Ensemble::start(EnsembleConfig { tick_time, links: true, ..EnsembleConfig::default() }).await.unwrap()
}

/// Opens a client of all servers but this one.
async fn client_of_others(ensemble: &Ensemble, server: usize) -> Client {
    let mut servers = ensemble.connect_strings();
    servers.remove(server);
    client_of(&servers.join(",")).await
}

/// Asserts that every server has the nodes `present` and none of `absent`.
async fn assert_agreed(ensemble: &Ensemble, present: &[&str], absent: &[&str]) {
    for (server, address) in ensemble.connect_strings().iter().enumerate() {
        let client = client_of(address).await;
        soon("a sync", client.sync("/")).await.unwrap();
        for (paths, is_present) in [(present, true), (absent, false)] {
            for path in paths {
                let stat = soon("a read", client.check_stat(path)).await.unwrap();
                assert_eq!(stat.is_some(), is_present, "{path} on server {server}");
            }
        }
    }
}

/// Isolates the leader, lets the others work and brings it back.
async fn an_isolated_leader_is_succeeded(fault: LinkFault) {
    let ensemble = linked(Duration::from_millis(500)).await;
    let lost = ensemble.leader().await.unwrap();
    let client = client_of(&ensemble.connect_strings()[lost]).await;
    client.create("/before", &[], &PERSISTENT).await.unwrap();

    ensemble.isolate(lost, fault).unwrap();
    let answer = client.create("/unanswered", &[], &PERSISTENT);
    let leader = leader_other_than(&ensemble, Some(lost)).await;
    write(&client_of_others(&ensemble, lost).await, "/meanwhile").await;
    soon("the end of the connection", answer).await.unwrap_err();

    ensemble.heal(lost).unwrap();
    until_followed(&ensemble, leader, 2).await;
    assert_agreed(&ensemble, &["/before", "/meanwhile"], &["/unanswered"]).await;
    assert_eq!(ensemble.leader().await, Some(leader));
}

// T9
#[tokio::test]
async fn a_leader_in_a_black_hole_is_succeeded_and_follows_later() {
    an_isolated_leader_is_succeeded(LinkFault::Blackhole).await;
}

// T9
#[tokio::test]
async fn a_leader_that_is_cut_off_is_succeeded_and_follows_later() {
    an_isolated_leader_is_succeeded(LinkFault::Cut).await;
}

// T10
#[tokio::test]
async fn a_leader_with_half_open_links_answers_from_the_past() {
    // The old leader goes on for at least nine seconds, and an election takes half of one.
    let ensemble = linked(Duration::from_secs(2)).await;
    let old = ensemble.leader().await.unwrap();
    let client = client_of(&ensemble.connect_strings()[old]).await;
    client.create("/a", b"before", &PERSISTENT).await.unwrap();

    ensemble.isolate(old, LinkFault::HalfOpen).unwrap();
    let leader = leader_other_than(&ensemble, Some(old)).await;
    let others = client_of_others(&ensemble, old).await;
    others.set_data("/a", b"after", None).await.unwrap();
    write(&others, "/meanwhile").await;

    soon("a sync", client.sync("/a")).await.unwrap();
    assert_eq!(client.get_data("/a").await.unwrap().0, b"before");
    assert_eq!(client.check_stat("/meanwhile").await.unwrap(), None);
    let answer = client.create("/unanswered", &[], &PERSISTENT);

    ensemble.heal(old).unwrap();
    soon("the end of the connection", answer).await.unwrap_err();
    until_followed(&ensemble, leader, 2).await;
    assert_agreed(&ensemble, &["/a", "/meanwhile"], &["/unanswered"]).await;
    assert_eq!(client_of(&ensemble.connect_strings()[old]).await.get_data("/a").await.unwrap().0, b"after");
}

// T11
#[tokio::test]
async fn a_link_fails_in_one_direction_only() {
    let ensemble = linked(Duration::from_millis(500)).await;
    let leader = ensemble.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let client = client_of(&ensemble.connect_strings()[follower]).await;

    // Followers open the connections that they replicate by.
    ensemble.break_link(leader, follower, LinkFault::Cut).unwrap();
    client.create("/a", &[], &PERSISTENT).await.unwrap();
    assert_eq!(ensemble.metric(leader, "zk_synced_followers").await.unwrap(), 2);
    ensemble.heal_link(leader, follower).unwrap();

    for fault in [LinkFault::Cut, LinkFault::Blackhole, LinkFault::HalfOpen] {
        ensemble.break_link(follower, leader, fault).unwrap();
        until_followed(&ensemble, leader, 1).await;
        ensemble.heal_link(follower, leader).unwrap();
        // The leader counts a follower before it has caught up.
        let client = client_of(&ensemble.connect_strings()[follower]).await;
        soon("a sync", client.sync("/")).await.unwrap();
    }
    assert_eq!(ensemble.leader().await, Some(leader));
}

#[tokio::test]
async fn a_slow_link_holds_each_write_and_keeps_its_leader() {
    let ensemble = linked(Duration::from_secs(2)).await;
    let leader = ensemble.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let client = client_of(&ensemble.connect_strings()[follower]).await;
    let latency = Duration::from_millis(200);
    ensemble.delay(follower, latency).unwrap();
    let asked = Instant::now();
    write(&client, "/slow").await;
    assert!(asked.elapsed() >= 2 * latency, "the request goes to the leader, and its commit comes back");
    ensemble.heal(follower).unwrap();
    assert_agreed(&ensemble, &["/slow"], &[]).await;
    assert_eq!(ensemble.leader().await, Some(leader));
}

#[tokio::test]
async fn isolated_servers_have_no_leader_until_links_are_healed() {
    let ensemble = linked(Duration::from_millis(500)).await;
    for server in 0..3 {
        ensemble.isolate(server, LinkFault::Blackhole).unwrap();
    }
    let none_leads = async {
        while ensemble.leader().await.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("there is no leader", none_leads).await;
    for (from, to) in [(0, 1), (1, 0)] {
        ensemble.heal_link(from, to).unwrap();
    }
    let leader = leader_other_than(&ensemble, None).await;
    assert_ne!(leader, 2);
    until_followed(&ensemble, leader, 1).await;
}

#[tokio::test]
async fn links_that_there_are_not_are_named_in_the_error() {
    let ensemble = linked(Duration::from_millis(500)).await;
    let without = Ensemble::start(EnsembleConfig { servers: 1, ..EnsembleConfig::default() }).await.unwrap();
    for (error, part) in [
        (ensemble.isolate(3, LinkFault::Cut).unwrap_err(), "no server 3"),
        (ensemble.heal(3).unwrap_err(), "no server 3"),
        (ensemble.delay(3, Duration::ZERO).unwrap_err(), "no server 3"),
        (ensemble.break_link(0, 3, LinkFault::Cut).unwrap_err(), "no server 3"),
        (ensemble.heal_link(1, 1).unwrap_err(), "no link to itself"),
        (without.isolate(0, LinkFault::Cut).unwrap_err(), "EnsembleConfig::links"),
    ] {
        assert!(matches!(error, Error::Setting(_)) && error.to_string().contains(part), "{error}");
    }
}

#[cfg(target_os = "linux")]
mod sockets {
    //! The connections that the system lists.

    use std::fs;

    use super::*;
    use crate::support::{eventually, four_letter_word};

    /// Returns the ports at which the servers listen for each other.
    fn peer_ports(ensemble: &Ensemble) -> Vec<u16> {
        let conf = four_letter_word(&ensemble.connect_strings()[0], "conf");
        let servers = conf.lines().filter(|line| line.starts_with("server."));
        servers.flat_map(|line| line.split(':').skip(1).take(2)).map(|port| port.parse().unwrap()).collect()
    }

    struct Socket {
        local_port: u16,
        remote_port: u16,
        is_closing: bool,
        inode: String,
    }

    fn sockets() -> Vec<Socket> {
        let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields
            .map(|fields| Socket {
                local_port: port(fields[1]),
                remote_port: port(fields[2]),
                // Closing sockets, such as those in TIME_WAIT, have no owner any more.
                is_closing: fields[9] == "0",
                inode: fields[9].to_owned(),
            })
            .collect()
    }

    fn is_own(socket: &Socket) -> bool {
        let descriptors =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        descriptors.into_iter().any(|link| link.to_str() == Some(&format!("socket:[{}]", socket.inode)))
    }

    // T8
    #[tokio::test]
    async fn all_links_pass_the_proxies_and_end_with_them() {
        let ensemble = linked(Duration::from_millis(500)).await;
        let ports = peer_ports(&ensemble);
        assert_eq!(ports.len(), 6, "{ports:?}");
        let all_are_own = || {
            let mut to_peers = sockets();
            to_peers.retain(|socket| !socket.is_closing && ports.contains(&socket.remote_port));
            // Two followers replicate, and three pairs vote.
            to_peers.len() >= 5 && to_peers.iter().all(is_own)
        };
        eventually("all connections to the servers' ports are the proxies'", all_are_own);

        let old = ensemble.leader().await.unwrap();
        ensemble.isolate(old, LinkFault::HalfOpen).unwrap();
        let leader = leader_other_than(&ensemble, Some(old)).await;
        ensemble.heal(old).unwrap();
        until_followed(&ensemble, leader, 2).await;
        eventually("all connections after an election are the proxies'", all_are_own);

        ensemble.isolate(leader, LinkFault::HalfOpen).unwrap();
        drop(ensemble);
        let is_of_peers = |socket: &Socket| ports.contains(&socket.remote_port) || ports.contains(&socket.local_port);
        let left = sockets().iter().filter(|socket| !socket.is_closing && is_of_peers(socket)).count();
        assert_eq!(left, 0);
    }
}
