//! TLS to Redis.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use demo_service::http::server::Server;
use testbed::{Authority, Redis, RedisConfig};

use crate::lab::Lab;

/// Starts a Redis with a certificate for a host. Returns its URL for TLS.
async fn encrypted(authority: &Authority, host: &str) -> (Redis, String) {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let identity = authority.issue(host).unwrap();
    // The server may run under another account.
    let folder = identity.key.parent().unwrap();
    for (path, mode) in [(folder, 0o755), (&identity.key, 0o644), (&identity.certificate, 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let [certificate, key] = [&identity.certificate, &identity.key].map(|path| path.to_str().unwrap());
    loop {
        // Another program may take the port meanwhile.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let set = [
            "CONFIG",
            "SET",
            "tls-cert-file",
            certificate,
            "tls-key-file",
            key,
            "tls-auth-clients",
            "no",
            "tls-port",
            &port,
        ];
        if redis.command(&set).await.is_ok() {
            return (redis, format!("rediss://127.0.0.1:{port}/"));
        }
    }
}

// S98
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_of_the_right_authority_is_used_over_tls() {
    let lab = Lab::new().await;
    let authority = Authority::create().unwrap();
    let (_redis, url) = encrypted(&authority, "127.0.0.1").await;
    let trusted = authority.certificate().to_str().unwrap();
    let instance = lab.start(&["--redis-url", &url, "--redis-ca", trusted]).await;
    instance.put_on_sale(1, 5, "redis-lock-fenced").await.assert_ok();
    instance.buy(1, "redis-lock-fenced").await.assert_ok();
}

// S98
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_does_not_prove_its_identity_is_refused() {
    let lab = Lab::new().await;
    let authority = Authority::create().unwrap();
    let stranger = Authority::create().unwrap();
    let trusted = authority.certificate().to_str().unwrap();
    for (issuer, host) in [(&stranger, "127.0.0.1"), (&authority, "redis.example")] {
        let (_redis, url) = encrypted(issuer, host).await;
        let refused = Server::start(lab.config(&["--redis-url", &url, "--redis-ca", trusted])).await.err().unwrap();
        let said = refused.to_string();
        assert!(said.contains("certificate") && said.contains("--redis-ca (REDIS_CA)"), "{said}");
    }
    let (redis, url) = encrypted(&authority, "127.0.0.1").await;
    for (url, authority, part) in [
        (&url, "/nowhere.pem", "cannot read /nowhere.pem of --redis-ca (REDIS_CA)"),
        (&redis.url(), trusted, "`rediss://`"),
    ] {
        let refused = Server::start(lab.config(&["--redis-url", url, "--redis-ca", authority])).await.err().unwrap();
        assert!(refused.to_string().contains(part), "{refused}");
    }
}
