//! Calls of the system for which the standard library has no safe function.
#![expect(unsafe_code, reason = "signal dispositions and the time between fork and exec belong to the whole process")]

use std::mem::MaybeUninit;
use std::ptr;

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Returns whether the parent had this process ignore the signal, as `nohup` does, and `&` in a script.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one to where it is told.
    let answer = unsafe { libc::sigaction(signal as libc::c_int, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: the call has succeeded, so it has written.
    answer == 0 && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Restores the default action of a signal.
pub(crate) fn restore_default(signal: Signal) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process. The only error is for signals that cannot be caught.
    let _ = unsafe { sigaction(signal, &default) };
}

/// Lets a command be killed when the thread that starts it ends, however it ends.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;

    use nix::errno::Errno;
    use nix::sys::prctl;
    use nix::unistd::{getpid, getppid};

    let parent = getpid();
    let arm = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // A parent that has ended before this point is not reported any more.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: it only makes two system calls, which are safe between fork and exec.
    unsafe { command.pre_exec(arm) };
}
