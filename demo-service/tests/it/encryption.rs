//! Connections that are encrypted, to servers that prove who they are.

// S98

use std::path::Path;

use demo_service::http::server::Server;
use demo_service::strategy::registry::STRATEGIES;
use testbed::{Authority, Identity, Postgres, PostgresConfig, ZooKeeper, ZooKeeperConfig, ZooKeeperTls};

use crate::lab::Lab;

/// Starts a database whose server has a certificate for `host`. Returns it with its URL for a client that trusts `trusted`.
async fn postgres_for(host: &str, authority: &Authority, trusted: &Authority) -> (Postgres, String) {
    let tls = Some(authority.issue(host).unwrap());
    let postgres = Postgres::start(PostgresConfig { tls, ..PostgresConfig::default() }).await.unwrap();
    let root = trusted.certificate().display();
    let url = format!("{}?sslmode=verify-full&sslrootcert={root}", postgres.url("postgres"));
    (postgres, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_is_encrypted_to_servers_that_prove_who_they_are() {
    let authority = Authority::create().unwrap();
    let (_postgres, url) = postgres_for("127.0.0.1", &authority, &authority).await;
    let (_zookeeper, mut lab) = zookeeper_for("127.0.0.1", &authority).await;
    lab.database_url.clone_from(&url);
    lab.service_database_url = url;
    let client = authority.issue("shop.example").unwrap();
    let instance = lab.start(&flags(authority.certificate(), &client)).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.buy(1, "zk-mutex").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "over TLS").await, 1);
    let sql = "select count(*), count(*) filter (where ssl) from pg_stat_ssl join pg_stat_activity using (pid)
               where application_name like 'demo-service%'";
    let (all, encrypted): (i64, i64) = sqlx::query_as(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert!(all > 0 && all == encrypted, "{encrypted} of {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_prove_who_it_is_is_refused() {
    let authority = Authority::create().unwrap();
    let other = Authority::create().unwrap();
    for (host, trusted, reason) in
        [("127.0.0.1", &other, "UnknownIssuer"), ("postgres.example", &authority, "not valid for name")]
    {
        let (_postgres, url) = postgres_for(host, &authority, trusted).await;
        let lab = Lab::on_postgres(url).await;
        let refused = Server::start(lab.config(&[])).await.err().unwrap().to_string();
        for part in [reason, "127.0.0.1", "sslrootcert", "--database-url (DATABASE_URL)"] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_tls_or_a_missing_authority_is_refused() {
    let authority = Authority::create().unwrap();
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let plain = postgres.url("postgres").replace("=disable", "=verify-full&sslrootcert=");
    let (_server, encrypted) = postgres_for("127.0.0.1", &authority, &authority).await;
    let nowhere = encrypted.replace("authority.pem", "nowhere.pem");
    for (url, reason) in [
        (format!("{plain}{}", authority.certificate().display()), "server does not support TLS"),
        (nowhere, "No such file"),
    ] {
        let lab = Lab::on_postgres(url).await;
        let refused = Server::start(lab.config(&[])).await.err().unwrap().to_string();
        for part in [reason, "sslrootcert", "--database-url (DATABASE_URL)"] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
}

/// Starts a ZooKeeper whose server proves itself with a certificate for `host`, and asks clients for one of the same authority.
async fn zookeeper_for(host: &str, authority: &Authority) -> (ZooKeeper, Lab) {
    let client_authority = authority.certificate().to_owned();
    let tls = Some(ZooKeeperTls { identity: authority.issue(host).unwrap(), client_authority });
    let zookeeper = ZooKeeper::start(ZooKeeperConfig { tls, ..ZooKeeperConfig::default() }).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.tls_connect_string().unwrap()).await;
    (zookeeper, lab)
}

fn flags<'a>(authority: &'a Path, identity: &'a Identity) -> [&'a str; 6] {
    let [authority, certificate, key] =
        [authority, &identity.certificate, &identity.key].map(|path| path.to_str().unwrap());
    ["--zookeeper-ca", authority, "--zookeeper-cert", certificate, "--zookeeper-key", key]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_sells_under_locks_that_are_taken_over_tls() {
    let authority = Authority::create().unwrap();
    let (_zookeeper, lab) = zookeeper_for("127.0.0.1", &authority).await;
    let client = authority.issue("shop.example").unwrap();
    let instance = lab.start(&flags(authority.certificate(), &client)).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_problem(409, "sold-out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zookeeper_that_does_not_prove_who_it_is_is_refused() {
    let authority = Authority::create().unwrap();
    let other = Authority::create().unwrap();
    let client = authority.issue("shop.example").unwrap();
    for (host, trusted, reason) in
        [("127.0.0.1", &other, "UnknownIssuer"), ("zookeeper.example", &authority, "not valid for name")]
    {
        let (_zookeeper, lab) = zookeeper_for(host, &authority).await;
        let refused =
            Server::start(lab.config(&flags(trusted.certificate(), &client))).await.err().unwrap().to_string();
        for part in [reason, &lab.zookeeper, "--zookeeper-ca (ZOOKEEPER_CA)", trusted.certificate().to_str().unwrap()] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_zookeeper_does_not_trust_does_not_start() {
    let authority = Authority::create().unwrap();
    let other = Authority::create().unwrap();
    let (_zookeeper, lab) = zookeeper_for("127.0.0.1", &authority).await;
    let stranger = other.issue("shop.example").unwrap();
    let flags = flags(authority.certificate(), &stranger);
    for flags in [&flags[..], &flags[..2]] {
        let refused = Server::start(lab.config(flags)).await.err().unwrap().to_string();
        for part in ["received fatal alert", &lab.zookeeper, "--zookeeper-cert (ZOOKEEPER_CERT)"] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_names_that_tls_cannot_work_with_are_named() {
    let authority = Authority::create().unwrap();
    let client = authority.issue("shop.example").unwrap();
    let lab = Lab::on_zookeeper("zoo keeper:2281".to_owned()).await;
    let flags = flags(authority.certificate(), &client);
    let key_for_a_certificate = [flags[0], flags[5]];
    let other_key = authority.issue("shop.example").unwrap().key;
    let with_other_key = [&flags[..5], &[other_key.to_str().unwrap()]].concat();
    for (flags, part) in [
        (&["--zookeeper-ca", "/nowhere.pem"][..], "/nowhere.pem of --zookeeper-ca (ZOOKEEPER_CA): No such file"),
        (&key_for_a_certificate, "cannot use the authority for TLS (give it as PEM): there is no certificate in it"),
        (&with_other_key, "cannot use the key for TLS"),
        (&flags, "a host is neither a name nor an address"),
    ] {
        let refused = Server::start(lab.config(flags)).await.err().unwrap().to_string();
        assert!(refused.contains(part), "{part} in {refused}");
    }
}
