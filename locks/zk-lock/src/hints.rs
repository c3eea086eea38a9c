//! Tips for users of `flock`, `consul lock` and `etcdctl lock`: what to write instead.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::server::SERVERS_VARIABLE;

/// Options of the other commands, each with what does the same here.
const OPTIONS: [(&[&str], &str); 11] = [
    (
        &["-n", "--nb", "--nonblock"],
        "--timeout 0s takes the lock only if it is free; --recipe semaphore=N lets N commands hold it",
    ),
    (&["-w", "--wait", "-timeout", "-try"], "--timeout 5s waits for at most 5 seconds"),
    (&["-s", "--shared"], "--recipe read shares the lock with other readers"),
    (
        &["-e", "-x", "--exclusive"],
        "a lock is exclusive without an option; --recipe write is the counterpart of --recipe read",
    ),
    (&["-c", "--command", "-shell"], "a shell runs a line, after all options: -- sh -c 'LINE'"),
    (&["-E", "--conflict-exit-code"], "the status is 75 if the lock was not granted in time"),
    (&["-child-exit-code"], "the status is COMMAND's without an option"),
    (
        &["-u", "--unlock", "-o", "--close", "-F", "--no-fork", "-pass-stdin"],
        "leave it out: COMMAND has our standard input, and the lock is free when COMMAND has ended",
    ),
    (&["-verbose"], "--verbose has two dashes"),
    (&["--ttl"], "--session-timeout 10s is the silence after which ZooKeeper frees the lock"),
    (&["--endpoints"], "--zookeeper names the servers"),
];

/// Adds tips to the refusal of a command line. `words` are those behind the name of the program.
pub(crate) fn with_tips(mut refusal: clap::Error, words: impl Iterator<Item = OsString>) -> clap::Error {
    let tips = match (refusal.kind(), refusal.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) => of_option(unknown, words),
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => of_missing(missing),
        _ => Vec::new(),
    };
    if !tips.is_empty() {
        // A similar name is a guess. These tips are none.
        refusal.remove(ContextKind::SuggestedArg);
        let tips = tips.into_iter().map(StyledStr::from).collect();
        refusal.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    refusal
}

/// Returns the tips for an unknown option. Of a word with one dash, such as `-timeout=5s` or `-xn`, clap reports only
/// the first letter that it does not know.
fn of_option(unknown: &str, words: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut ours = words.map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    let letter = unknown.trim_start_matches('-');
    let is_origin = |word: &String| {
        let has_letter = word.starts_with('-') && !word.starts_with("--") && word.contains(letter);
        if unknown.starts_with("--") { word.starts_with(unknown) } else { has_letter }
    };
    let Some(word) = ours.find(is_origin) else { return Vec::new() };
    let name = word.split('=').next().unwrap_or(&word);
    // A number may follow a letter at once, as in `-w5`.
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let of = |name: &str| OPTIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, tip)| (*tip).to_owned());
    let of_letters = || name.chars().skip(1).map(|letter| of(&format!("-{letter}"))).collect::<Option<_>>();
    of(name).map(|tip| vec![tip]).or_else(of_letters).unwrap_or_default()
}

fn of_missing(missing: &[String]) -> Vec<String> {
    let tip = |argument: &String| match argument.as_str() {
        path if path.starts_with("--path") => {
            Some("the lock is named by an option, before COMMAND: --path /locks/NAME".to_owned())
        }
        servers if servers.starts_with("--zookeeper") => Some(format!(
            "{SERVERS_VARIABLE} names the servers, too; it is not set here, as cron, systemd and sudo have their own variables"
        )),
        command if command.starts_with("<COMMAND>") => {
            Some("the lock is held while COMMAND runs; -- sleep infinity holds it until Ctrl-C".to_owned())
        }
        _ => None,
    };
    missing.iter().filter_map(tip).collect()
}
