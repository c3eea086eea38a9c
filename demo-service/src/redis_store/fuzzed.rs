//! URLs of Redis, as a user may write them.

use super::RedisServer;
use crate::secrets::Secret;

// S125
#[test]
fn no_error_and_no_address_shows_the_password_of_redis() {
    fuzz::any_text("redis-urls", |place| {
        let Some(url) = Secret::new(format!("redis://shop:open-sesame@{place}")) else { return };
        let told = match RedisServer::parse(&url, None) {
            Ok(server) => server.address(),
            Err(refusal) => refusal,
        };
        assert!(place.contains("open-sesame") || !told.contains("open-sesame"), "{place:?}: {told}");
        if let Some(url) = Secret::new(place.to_owned())
            && let Ok(server) = RedisServer::parse(&url, None)
        {
            assert!(!server.address().is_empty(), "{place:?}");
        }
    });
}
