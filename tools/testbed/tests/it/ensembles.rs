//! Replicated servers.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::{Ensemble, EnsembleConfig, Error, LinkFault};
use zookeeper_client::Error as ClientError;

use crate::support::{
    DEADLINE, PERSISTENT, client_of, four_letter_word, is_listening, leader_other_than, until_followed, write,
};

fn quick() -> EnsembleConfig {
    EnsembleConfig { tick_time: Duration::from_millis(500), ..EnsembleConfig::default() }
}

#[tokio::test]
async fn all_servers_of_an_ensemble_serve_and_leave_nothing() {
    let ensemble = Ensemble::start(quick()).await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    assert_eq!(ensemble.metric(leader, "zk_synced_followers").await.unwrap(), 2);
    let servers = ensemble.connect_strings();
    assert_eq!(ensemble.connect_string(), servers.join(","));
    client_of(&servers[0]).await.create("/a", b"b", &PERSISTENT).await.unwrap();
    let mut folders = Vec::new();
    for server in &servers {
        let client = client_of(server).await;
        client.sync("/a").await.unwrap();
        assert_eq!(client.get_data("/a").await.unwrap().0, b"b");
        folders.push(data_dir(server));
    }
    assert!(folders.iter().all(|folder| fs::exists(folder).unwrap()));
    drop(ensemble);
    assert!(!servers.iter().any(|server| is_listening(server)));
    assert!(!folders.iter().any(|folder| fs::exists(folder).unwrap()));
}

fn data_dir(server: &str) -> String {
    let conf = four_letter_word(server, "conf");
    conf.lines().find_map(|line| line.strip_prefix("dataDir=")).unwrap().to_owned()
}

#[tokio::test]
async fn an_ensemble_serves_without_its_leader_and_takes_it_back() {
    let mut ensemble = Ensemble::start(quick()).await.unwrap();
    assert!(ensemble.step_clock(0, 1).unwrap_err().to_string().contains("was not started with a clock of its own"));
    let client = client_of(&ensemble.connect_string()).await;
    let session = client.session_id();
    client.create("/before", &[], &PERSISTENT).await.unwrap();
    let lost = ensemble.leader().await.unwrap();
    ensemble.stop_server(lost).await.unwrap();

    let leader = leader_other_than(&ensemble, None).await;
    assert_ne!(leader, lost);
    write(&client, "/meanwhile").await;
    assert_eq!(client.session_id(), session);

    ensemble.start_server(lost).await.unwrap();
    let returned = client_of(&ensemble.connect_strings()[lost]).await;
    returned.sync("/").await.unwrap();
    for path in ["/before", "/meanwhile"] {
        assert!(returned.check_stat(path).await.unwrap().is_some(), "{path}");
    }
    assert_eq!(ensemble.leader().await, Some(leader));
}

#[tokio::test]
async fn a_frozen_leader_is_succeeded_and_rejoins_when_it_wakes() {
    let tick_time = Duration::from_millis(200);
    let ensemble = Ensemble::start(EnsembleConfig { tick_time, ..quick() }).await.unwrap();
    let frozen = ensemble.leader().await.unwrap();
    ensemble.pause(frozen).unwrap();
    let leader = leader_other_than(&ensemble, Some(frozen)).await;
    ensemble.resume(frozen).unwrap();
    until_followed(&ensemble, leader, 2).await;
    assert_eq!(ensemble.leader().await, Some(leader));
}

#[tokio::test]
async fn a_stopped_ensemble_has_its_nodes_after_a_restart() {
    let mut ensemble = Ensemble::start(quick()).await.unwrap();
    client_of(&ensemble.connect_string()).await.create("/a", &[], &PERSISTENT).await.unwrap();
    for server in 0..3 {
        ensemble.stop_server(server).await.unwrap();
    }
    assert_eq!(ensemble.leader().await, None);
    ensemble.start_server(2).await.unwrap();
    assert_eq!(ensemble.leader().await, None, "one of three is no quorum");
    ensemble.start_server(0).await.unwrap();
    let client = client_of(&ensemble.connect_strings()[0]).await;
    assert!(client.check_stat("/a").await.unwrap().is_some());
}

#[tokio::test]
async fn an_ensemble_is_revived_after_whatever_was_done_to_it() {
    let mut ensemble = Ensemble::start(EnsembleConfig { links: true, ..quick() }).await.unwrap();
    assert_eq!(ensemble.size(), 3);
    client_of(&ensemble.connect_string()).await.create("/a", &[], &PERSISTENT).await.unwrap();
    ensemble.kill_server(0).await.unwrap();
    ensemble.pause(1).unwrap();
    ensemble.isolate(2, LinkFault::Blackhole).unwrap();
    ensemble.revive().await.unwrap();
    ensemble.until_serving().await.unwrap();
    let client = client_of(&ensemble.connect_strings()[0]).await;
    assert!(client.check_stat("/a").await.unwrap().is_some());
}

// T6
#[tokio::test]
async fn a_restarted_member_grants_timeouts_by_its_new_limits() {
    let limits = Duration::from_secs(1)..=Duration::from_secs(20);
    let mut ensemble = Ensemble::start(EnsembleConfig { session_timeouts: Some(limits), ..quick() }).await.unwrap();
    let servers = ensemble.connect_strings();
    assert_eq!(client_of(&servers[0]).await.session_timeout(), Duration::from_secs(20));
    let short = Duration::from_secs(2);
    ensemble.set_session_timeouts(0, short..=short).unwrap();
    ensemble.start_server(0).await.unwrap();
    assert_eq!(client_of(&servers[0]).await.session_timeout(), short);
    assert_eq!(client_of(&servers[1]).await.session_timeout(), Duration::from_secs(20), "another server");
}

#[tokio::test]
async fn an_ensemble_of_one_server_leads_itself() {
    let ensemble = Ensemble::start(EnsembleConfig { servers: 1, ..quick() }).await.unwrap();
    assert_eq!(ensemble.leader().await, Some(0));
    client_of(&ensemble.connect_string()).await.create("/a", &[], &PERSISTENT).await.unwrap();
}

#[tokio::test]
async fn an_impossible_number_of_servers_is_refused_at_once() {
    for servers in [0, 10] {
        let error = Ensemble::start(EnsembleConfig { servers, ..quick() }).await.unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_there_is_not_is_named_in_the_error() {
    let mut ensemble = Ensemble::start(EnsembleConfig { servers: 1, ..quick() }).await.unwrap();
    let errors = [
        ensemble.stop_server(1).await.unwrap_err(),
        ensemble.start_server(1).await.unwrap_err(),
        ensemble.set_session_timeouts(1, Duration::from_secs(1)..=Duration::from_secs(2)).unwrap_err(),
        ensemble.pause(1).unwrap_err(),
        ensemble.resume(1).unwrap_err(),
        ensemble.metric(1, "zk_znode_count").await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("no server 1"), "{error}");
    }
}

#[tokio::test]
async fn a_server_with_a_full_disk_gives_up_and_comes_back() {
    let mut ensemble = Ensemble::start(quick()).await.unwrap();
    let client = client_of(&ensemble.connect_string()).await;
    client.create("/before", &[], &PERSISTENT).await.unwrap();
    let full = ensemble.leader().await.unwrap();
    ensemble.fill_disk(full).unwrap();
    // The others may keep a write that the leader cannot answer any more.
    let mut written = client.create("/meanwhile", &[], &PERSISTENT).await;
    leader_other_than(&ensemble, Some(full)).await;
    while !matches!(written, Ok(_) | Err(ClientError::NodeExists)) {
        written = client.create("/meanwhile", &[], &PERSISTENT).await;
    }

    ensemble.start_server(full).await.unwrap();
    let returned = client_of(&ensemble.connect_strings()[full]).await;
    returned.sync("/").await.unwrap();
    for path in ["/before", "/meanwhile"] {
        assert!(returned.check_stat(path).await.unwrap().is_some(), "{path}");
    }
}

#[tokio::test]
async fn the_clock_of_a_server_is_stepped_and_its_sessions_stay() {
    let ensemble = Ensemble::start(EnsembleConfig { clocks: true, ..quick() }).await.unwrap();
    let client = client_of(&ensemble.connect_string()).await;
    let session = client.session_id();
    let mut made = 0;
    for ahead in [3600, -3600, 0] {
        (0..3).for_each(|server| ensemble.step_clock(server, ahead).unwrap());
        let follows = async {
            loop {
                made += 1;
                let path = format!("/made-{made}");
                // The time of the leader.
                client.create(&path, &[], &PERSISTENT).await.unwrap();
                let ctime = client.check_stat(&path).await.unwrap().unwrap().ctime / 1000;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
                if (ctime - now.cast_signed() - ahead).abs() < 60 {
                    break;
                }
            }
        };
        tokio::time::timeout(DEADLINE, follows).await.expect("the server follows");
    }
    assert_eq!(client.session_id(), session);
}
