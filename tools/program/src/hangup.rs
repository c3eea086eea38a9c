//! `SIGHUP`, which a terminal sends when it closes.
#![expect(unsafe_code, reason = "the standard library has no call for the disposition of a signal")]

use std::mem::MaybeUninit;
use std::ptr;

use nix::libc;

/// Returns whether `SIGHUP` is ignored. `nohup` starts a program so, and the program must then outlive its terminal.
#[must_use]
pub fn is_hangup_ignored() -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one to the given place.
    let answer = unsafe { libc::sigaction(libc::SIGHUP, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: the call has succeeded, so it has written.
    answer == 0 && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Ignores `SIGHUP` from here on.
#[cfg(feature = "interrupt")]
pub(crate) fn ignore_hangup() {
    // SAFETY: ignoring a signal runs no code of this process.
    let _ = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}
