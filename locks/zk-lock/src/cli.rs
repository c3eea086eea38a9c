//! The command line, and the settings that it makes together with the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Parser, ValueEnum};
use clap_complete::Shell;
use zk_recipes::validate_path;

use crate::error::{Error, quoted};
use crate::help::{DETAILS, EXAMPLES, EXIT_STATUS, USAGE};
use crate::page::Page;
use crate::recipe::Recipe;
use crate::server::{SERVERS_VARIABLE, ServerSettings, credentials, session_config, tls};

/// The options that stand for another task than to run a command. They exclude each other.
const INSTEAD: [&str; 4] = ["list", "revoke", "completions", "man"];

/// Runs a command while it holds a ZooKeeper lock, shows who holds one, or asks for it back.
#[derive(Debug, Parser)]
#[command(
    name = "zk-lock",
    version,
    max_term_width = 100,
    override_usage = USAGE,
    groups([
        ArgGroup::new("queue").args(["list", "revoke"]),
        ArgGroup::new("instead").args(INSTEAD),
    ]),
    after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}"),
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}\n\n{EXIT_STATUS}")
)]
pub(crate) struct Cli {
    /// Path of the lock in ZooKeeper; missing parents are created
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present_any = INSTEAD,
        conflicts_with_all = INSTEAD,
        help_heading = "Lock"
    )]
    path: Option<String>,
    /// Recipe of the lock: mutex, handoff, cohort, read, write, semaphore-mutex, semaphore=N, naive or leader. handoff is a
    /// mutex for long queues; programs hand cohort over among their tasks. semaphore=N has N holders at a time. Every waiter
    /// of naive watches one node. leader is --lead
    #[arg(
        long,
        value_name = "RECIPE",
        default_value_t = Recipe::Mutex,
        conflicts_with_all = INSTEAD,
        help_heading = "Lock"
    )]
    recipe: Recipe,
    /// Leads the election at PATH while COMMAND runs, as --recipe leader does; takes turns with Curator's LeaderLatch
    #[arg(long, conflicts_with = "recipe", conflicts_with_all = INSTEAD, help_heading = "Lock")]
    lead: bool,
    /// Longest wait for the lock; 0s takes it only if it is free [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = INSTEAD, help_heading = "Lock")]
    timeout: Option<Duration>,
    /// Shortest time from the grant to the release, also if COMMAND ends sooner. So hosts whose clocks differ run a short cron
    /// job once [default: until COMMAND ends]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = INSTEAD, help_heading = "Lock")]
    at_least: Option<Duration>,
    /// Action when the hold is lost while COMMAND runs
    #[arg(long, value_name = "ACTION", default_value = "kill", conflicts_with_all = INSTEAD, help_heading = "Lock")]
    on_lost: OnLost,
    /// Time from the loss to the kill of COMMAND. With much more than the default, COMMAND may run beside the next holder
    /// [default: 1/24 of --session-timeout]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = INSTEAD, help_heading = "Lock")]
    kill_after: Option<Duration>,
    /// Action when somebody asks for the lock while COMMAND runs: zk-lock --revoke, or Curator's Revoker
    #[arg(long, value_name = "ACTION", default_value = "stop", conflicts_with_all = INSTEAD, help_heading = "Lock")]
    on_revoke: OnRevoke,
    /// ZooKeeper servers, with the chroot at the end if there is one
    #[arg(
        long,
        env = SERVERS_VARIABLE,
        hide_env_values = true,
        value_name = "HOST:PORT,…",
        required_unless_present_any = ["completions", "man"],
        help_heading = "ZooKeeper"
    )]
    zookeeper: Option<String>,
    /// Silence after which ZooKeeper ends the session and frees the lock; the servers have limits of their own
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = parse_positive_time,
        help_heading = "ZooKeeper"
    )]
    session_timeout: Duration,
    /// Longest time to reach a server
    #[arg(
        long,
        value_name = "TIME",
        default_value = "15s",
        value_parser = parse_positive_time,
        help_heading = "ZooKeeper"
    )]
    connect_timeout: Duration,
    /// File with USER:PASSWORD for ZooKeeper, instead of ZK_LOCK_AUTH
    #[arg(long, value_name = "FILE", help_heading = "ZooKeeper")]
    auth_file: Option<PathBuf>,
    /// PEM file of the authority that issued the certificates of the ZooKeeper servers. It turns TLS on for all of them
    #[arg(long, value_name = "FILE", help_heading = "ZooKeeper")]
    ca: Option<PathBuf>,
    /// PEM file with the certificate that zk-lock shows to ZooKeeper
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"], help_heading = "ZooKeeper")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "ZooKeeper")]
    key: Option<PathBuf>,
    /// Prints the queue of the lock at PATH instead: position, holder or waiting, kind, session, token, node, data
    #[arg(long, value_name = "PATH", help_heading = "Queue")]
    list: Option<String>,
    /// Asks the holders of the lock at PATH to give it back, and prints them as --list does. For one of several holders, PATH
    /// is its LOCK_PATH
    #[arg(long, value_name = "PATH", help_heading = "Queue")]
    revoke: Option<String>,
    /// Prints JSON
    #[arg(long, requires = "queue", help_heading = "Queue")]
    json: bool,
    /// Prints the times of the wait and of the hold, and the fencing token, on standard error
    #[arg(short, long, conflicts_with_all = INSTEAD)]
    verbose: bool,
    /// Says nothing if the lock is not granted in time: the status tells it
    #[arg(short, long, conflicts_with_all = INSTEAD)]
    quiet: bool,
    /// Prints the script that completes the command line in SHELL instead
    #[arg(long, value_name = "SHELL")]
    completions: Option<Shell>,
    /// Prints the manual page instead
    #[arg(long)]
    man: bool,
    /// Command to run, and its arguments
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = INSTEAD,
        conflicts_with_all = INSTEAD,
        trailing_var_arg = true
    )]
    command: Vec<OsString>,
}

/// Action when the hold of COMMAND is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Stops it: SIGTERM, then SIGKILL
    Kill,
    /// Prints a warning and lets it run on
    Warn,
}

/// Action when somebody asks for the lock of COMMAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnRevoke {
    /// Asks it to stop: SIGTERM
    Stop,
    /// Prints a warning and lets it run on
    Warn,
    /// Nothing. The node of the hold is not watched, so its deletion is noticed at the release
    Ignore,
}

/// The task of the program.
#[derive(Debug)]
pub(crate) enum Task {
    Run(RunSettings),
    List(ListSettings),
    Print(Page),
}

/// A command, and the lock that it runs under.
#[derive(Debug)]
pub(crate) struct RunSettings {
    pub(crate) server: ServerSettings,
    pub(crate) path: String,
    pub(crate) recipe: Recipe,
    /// `None` for ever.
    pub(crate) timeout: Option<Duration>,
    /// Minimum time from the grant to the release.
    pub(crate) at_least: Duration,
    pub(crate) on_lost: OnLost,
    /// `None` for what the session timeout allows.
    pub(crate) kill_after: Option<Duration>,
    pub(crate) on_revoke: OnRevoke,
    /// The command that shows who holds the lock.
    pub(crate) list: String,
    pub(crate) command: Vec<OsString>,
}

/// The queue to print.
#[derive(Debug)]
pub(crate) struct ListSettings {
    pub(crate) server: ServerSettings,
    pub(crate) path: String,
    /// Whether to ask its holders for the lock.
    pub(crate) is_revoked: bool,
    pub(crate) json: bool,
}

impl Cli {
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Returns whether a lock that is not granted in time is reported by the status alone.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Checks the path and reads the credentials and certificates; `variable` reads the environment.
    pub(crate) fn resolve(self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Task, Error> {
        if let Some(page) = self.completions.map(Page::Completions).or(self.man.then_some(Page::Manual)) {
            return Ok(Task::Print(page));
        }
        let connect_string = self.zookeeper.expect("BUG: clap lets no other task without --zookeeper through");
        for path in self.path.iter().chain(&self.list).chain(&self.revoke) {
            validate_path(path).map_err(|error| Error::Usage(error.to_string()))?;
        }
        let auth = credentials(self.auth_file.as_deref(), &variable)?;
        let mut session = session_config(self.session_timeout, self.connect_timeout, auth);
        if let Some(authority) = &self.ca {
            session = session.with_tls(tls(authority, self.cert.as_deref().zip(self.key.as_deref()))?);
        }
        let is_in_environment = variable(SERVERS_VARIABLE).is_some_and(|servers| *servers == *connect_string);
        let servers =
            if is_in_environment { String::new() } else { format!("--zookeeper {} ", quoted(&connect_string)) };
        let server = ServerSettings { connect_string, session };
        let is_revoked = self.revoke.is_some();
        Ok(match (self.list.or(self.revoke), self.path) {
            (Some(path), _) => Task::List(ListSettings { server, path, is_revoked, json: self.json }),
            (None, Some(path)) => Task::Run(RunSettings {
                server,
                list: format!("zk-lock {servers}--list {}", quoted(&path)),
                path,
                recipe: if self.lead { Recipe::Leader } else { self.recipe },
                timeout: self.timeout,
                at_least: self.at_least.unwrap_or_default(),
                on_lost: self.on_lost,
                kill_after: self.kill_after,
                on_revoke: self.on_revoke,
                command: self.command,
            }),
            (None, None) => unreachable!("BUG: clap lets no command line without --path, --list or --revoke through"),
        })
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 500ms, 5s or 1m30s"))
}

fn parse_positive_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time.is_zero() { Err("the time must be longer than zero".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use zk_recipes::{Acl, Auth};

    use super::*;

    const PLACE: [&str; 5] = ["zk-lock", "--zookeeper", "zk:2181", "--path", "/locks/a"];

    fn parse(words: &[&str]) -> Cli {
        Cli::try_parse_from(PLACE.iter().chain(words)).unwrap()
    }

    fn refusal(words: &[&str]) -> clap::Error {
        Cli::try_parse_from(words).unwrap_err()
    }

    fn run(words: &[&str]) -> RunSettings {
        match parse(words).resolve(|_| None).unwrap() {
            Task::Run(settings) => settings,
            task => unreachable!("{task:?} was not asked for"),
        }
    }

    #[test]
    fn the_texts_below_the_options_fit_a_terminal() {
        for line in [EXAMPLES, EXIT_STATUS, DETAILS].into_iter().flat_map(str::lines) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_begins_at_the_first_word_that_is_no_option() {
        for words in [&["--", "ls", "-v", "--json"][..], &["ls", "-v", "--json"]] {
            let settings = run(words);
            assert_eq!(settings.command, ["ls", "-v", "--json"]);
            assert_eq!((settings.recipe, settings.timeout, settings.kill_after), (Recipe::Mutex, None, None));
        }
        assert_eq!(run(&["--lead", "ls"]).recipe, Recipe::Leader);
        assert_eq!(run(&["--", "--odd"]).command, ["--odd"]);
        let typo = refusal(&[&PLACE[..], &["--tmeout", "5s", "ls"]].concat());
        assert_eq!(typo.kind(), ErrorKind::UnknownArgument, "a mistyped option is no command");
    }

    #[test]
    fn times_are_read_with_their_units() {
        let settings = run(&["--timeout", "0s", "--session-timeout", "1m 30s", "--kill-after", "50ms", "ls"]);
        assert_eq!(settings.timeout, Some(Duration::ZERO));
        assert_eq!(settings.server.session.timeout, Duration::from_secs(90));
        assert_eq!(settings.kill_after, Some(Duration::from_millis(50)));
    }

    #[test]
    fn wrong_command_lines_name_what_is_wrong() {
        let with_place = |words: &[&'static str]| [&PLACE[..], words].concat();
        for (words, expected) in [
            (with_place(&[]), "<COMMAND>"),
            (with_place(&["--list", "/locks/a"]), "cannot be used with"),
            (with_place(&["--timeout", "5", "ls"]), "write a time such as 500ms, 5s or 1m30s"),
            (with_place(&["--session-timeout", "0s", "ls"]), "longer than zero"),
            (with_place(&["--recipe", "hand-off", "ls"]), "known are mutex, handoff, cohort, read, write"),
            (with_place(&["--on-lost", "pray", "ls"]), "[possible values: kill, warn]"),
            (with_place(&["--json", "ls"]), "<--list <PATH>|--revoke <PATH>>"),
            (with_place(&["--lead", "--recipe", "leader", "ls"]), "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/a", "--lead"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--revoke", "/a", "--at-least", "5s"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--revoke", "/a", "--list", "/a"], "cannot be used with"),
            (with_place(&["--revoke", "/a"]), "cannot be used with"),
            (with_place(&["--on-revoke", "obey", "ls"]), "[possible values: stop, warn, ignore]"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/a", "--recipe", "read"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "ls"], "--path"),
            (with_place(&["--ca", "ca.pem", "--cert", "me.pem", "ls"]), "--key"),
            (with_place(&["--cert", "me.pem", "--key", "me.key", "ls"]), "--ca"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/locks/a", "ls"], "cannot be used with"),
            (with_place(&["--man"]), "'--path <PATH>' cannot be used with '--man'"),
            (vec!["zk-lock", "--completions", "csh"], "[possible values: bash, "),
            (vec!["zk-lock", "--completions", "bash", "--man"], "cannot be used with"),
            (vec!["zk-lock", "--man", "--at-least", "5s"], "cannot be used with"),
        ] {
            let error = refusal(&words);
            assert!(error.to_string().contains(expected), "{words:?}: {error}");
            assert!(error.use_stderr(), "{words:?}");
        }
    }

    #[test]
    fn an_invalid_path_is_refused_before_anything_is_sent() {
        let place = ["zk-lock", "--zookeeper", "zk:2181"];
        for words in [
            &["--path", "locks/a", "ls"][..],
            &["--path", "/zookeeper/a", "ls"],
            &["--list", "/a/"],
            &["--revoke", "a"],
        ] {
            let cli = Cli::try_parse_from(place.iter().chain(words)).unwrap();
            let error = cli.resolve(|_| None).unwrap_err();
            assert!(
                crate::error::chain(&error).starts_with("invalid lock path "),
                "{words:?}: {}",
                crate::error::chain(&error)
            );
        }
    }

    #[test]
    fn credentials_come_from_the_environment_and_protect_the_nodes() {
        let resolved = parse(&["ls"]).resolve(|name| (name == "ZK_LOCK_AUTH").then(|| "shop:sesame:1".into()));
        let Task::Run(settings) = resolved.unwrap() else { unreachable!("a command was given") };
        assert_eq!(settings.server.session.auth, [Auth::digest("shop", "sesame:1")]);
        assert_ne!(settings.server.session.acl, Acl::open());
        assert!(!format!("{settings:?}").contains("sesame"));
        let empty = parse(&["ls"]).resolve(|_| Some(OsString::new())).unwrap();
        let Task::Run(settings) = empty else { unreachable!("a command was given") };
        assert_eq!((settings.server.session.auth, settings.server.session.acl), (Vec::new(), Acl::open()));
    }
}
