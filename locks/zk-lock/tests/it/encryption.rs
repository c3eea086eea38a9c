//! Servers that speak TLS, and ask who is there.

use testbed::{Authority, ProcessConfig, Stdout, ZooKeeper, ZooKeeperConfig, ZooKeeperTls};

use crate::support::{PATH, PROGRAM, Running};

// Z12
#[tokio::test(flavor = "multi_thread")]
async fn servers_and_clients_prove_who_they_are_over_tls() {
    let authority = Authority::create().unwrap();
    let identity = authority.issue("127.0.0.1").unwrap();
    let tls = Some(ZooKeeperTls { identity, client_authority: authority.certificate().to_owned() });
    let zookeeper = ZooKeeper::start(ZooKeeperConfig { tls, ..ZooKeeperConfig::default() }).await.unwrap();
    let connect_string = zookeeper.tls_connect_string().unwrap();
    let run = async |trusted: &Authority, client: &Authority| {
        let us = client.issue("zk-lock.example").unwrap();
        let [ca, cert, key] = [trusted.certificate(), &us.certificate, &us.key].map(|path| path.display().to_string());
        let flags =
            ["--ca", &ca, "--cert", &cert, "--key", &key, "--connect-timeout", "5s", "--path", PATH, "echo", "ran"];
        let config = ProcessConfig::new(PROGRAM).args(flags).env("ZOOKEEPER_CONNECT", &connect_string);
        Running::start(ProcessConfig { stdout: Stdout::Lines, ..config }).finish().await
    };
    let ran = run(&authority, &authority).await;
    ran.assert_status(0);
    assert_eq!(ran.stdout.trim(), "ran");

    let stranger = Authority::create().unwrap();
    for (trusted, client) in [(&stranger, &authority), (&authority, &stranger)] {
        let refused = run(trusted, client).await;
        refused.assert_status(69);
        assert!(refused.stderr.contains("cannot open an encrypted ZooKeeper session: "), "{}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
}
