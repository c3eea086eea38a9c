//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as the system grants it, for this process and those that it starts. Returns the
/// limit that holds then, or the greatest number if the system does not tell it.
pub fn raise_file_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    // macOS calls its limit infinite, but grants no more than the second one.
    let mut limits = [hard, hard.min(10_240)].into_iter();
    limits.find(|limit| setrlimit(Resource::RLIMIT_NOFILE, *limit, hard).is_ok()).unwrap_or(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(64), hard).unwrap();
        let raised = raise_file_limit();
        assert_eq!(raised, getrlimit(Resource::RLIMIT_NOFILE).unwrap().0);
        assert!(raised == hard || raised == 10_240, "{raised} of {hard}");
    }
}
