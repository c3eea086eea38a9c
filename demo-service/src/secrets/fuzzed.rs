//! The user of the service in ZooKeeper, as a file may name it.

use super::ZooKeeperUser;

// S125
#[test]
fn a_user_has_both_parts_and_no_error_shows_them() {
    fuzz::any_text("zookeeper-users", |text| match ZooKeeperUser::parse(text) {
        Ok(user) => {
            assert!(!user.name.is_empty() && !user.name.contains(':') && !user.password.expose().is_empty());
            assert_eq!(format!("{}:{}", user.name, user.password.expose()), text);
            assert!(user.password.matches(user.password.expose().as_bytes()));
        }
        Err(refusal) => {
            assert!(text.split_once(':').is_none_or(|(name, password)| name.is_empty() || password.is_empty()));
            assert_eq!(
                refusal,
                "ZOOKEEPER_AUTH is not of the form user:password (its value is not shown); give both parts"
            );
        }
    });
}
