//! Credentials, as a file or the environment may have them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::parse_auth;

// Z17
#[test]
fn credentials_have_both_parts_and_no_error_shows_them() {
    fuzz::any_bytes("credentials", |bytes| {
        let read = parse_auth(OsStr::from_bytes(bytes), "the file");
        let parts = str::from_utf8(bytes).ok().and_then(|text| text.split_once(':'));
        let are_sound = parts.is_some_and(|(user, password)| {
            !user.is_empty() && !password.is_empty() && !bytes.iter().any(u8::is_ascii_control)
        });
        assert_eq!(read.is_ok(), are_sound, "{bytes:?}");
        if let Err(error) = read {
            assert_eq!(
                crate::error::chain(&error),
                "the credentials in the file must be USER:PASSWORD, in UTF-8, on one line"
            );
        }
    });
}
