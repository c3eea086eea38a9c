//! The command line, and the settings that it makes together with the environment.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, ValueEnum};
use zk_recipes::{Acl, Auth, Permissions, SessionConfig, Tls, validate_path};

use crate::error::Error;
use crate::recipe::Recipe;

/// The environment variable with the credentials.
pub(crate) const AUTH_VARIABLE: &str = "ZK_LOCK_AUTH";

const USAGE: &str = "zk-lock [OPTIONS] --zookeeper <CONNECT> --path <PATH> [--] <COMMAND> [ARG]...
       zk-lock [OPTIONS] --zookeeper <CONNECT> --list <PATH> [--json]";

const EXIT_STATUS: &str = "\
Exit status:
  that of COMMAND, or 128 + N when signal N ended it; and
   64  wrong command line or credentials
   69  ZooKeeper did not answer or refused, or the session ended before the lock was had
   71  the operating system refused something
   75  the lock was not had within --timeout
   76  the hold was lost while COMMAND ran (with --on-lost warn: and COMMAND succeeded)
  126  COMMAND could not be run
  127  there is no such COMMAND
  128 + N  signal N ended the waiting: 130 after Ctrl-C, 143 after SIGTERM";

const DETAILS: &str = "\
A hold ends with COMMAND, whatever COMMAND has left in the background. It is lost earlier when the ZooKeeper servers
commit nothing for this session for two thirds of the session timeout, as another may hold the lock soon after. COMMAND is
then asked to stop (SIGTERM) and killed --kill-after later, by default in good time before another can hold: on Linux with
all that it has started; elsewhere with its process group, at a terminal alone.

With --lead, a hold is the term of a leader. It is also lost as soon as ZooKeeper tells that somebody deleted its node.

Whoever was stopped cannot watch: while zk-lock itself is halted (Ctrl-Z, SIGSTOP, a suspended machine), a hold may be
lost unnoticed. A storage that checks LOCK_TOKEN is safe even so. When zk-lock is killed by SIGKILL, Linux kills
COMMAND, but not what COMMAND has started, nor a COMMAND with privileges of its own (sudo); elsewhere it runs on.

Signals: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to COMMAND, which decides whether to end.
So are SIGTSTP and SIGCONT: the lock is kept while COMMAND is halted. At a terminal (standard input, output or error)
COMMAND shares the process group of zk-lock: it can read from there, has Ctrl-C, Ctrl-\\ and Ctrl-Z from the terminal
itself, and of the above is passed SIGTERM, SIGUSR1 and SIGUSR2 only. A signal that was ignored when zk-lock started
stays ignored.

Environment of COMMAND, beside that of zk-lock:
  LOCK_TOKEN  the fencing token, a number that grows with every hold of the lock
  LOCK_PATH   the path of the ZooKeeper node that stands for the hold

Environment:
  ZOOKEEPER_CONNECT  see --zookeeper
  ZK_LOCK_AUTH       credentials for ZooKeeper's digest scheme, USER:PASSWORD; COMMAND does not see them. The nodes of a
                     session with credentials can be changed by the same user only, and read by anyone.

Examples:
  one backup at a time, or none:
    zk-lock --zookeeper zk1:2181,zk2:2181/shop --path /locks/backup --timeout 0s -- ./backup.sh
  wait up to a minute, four at a time:
    zk-lock --path /locks/import --recipe semaphore=4 --timeout 1m -- ./import.sh orders.csv
  one instance of many serves, and the next one takes over when it ends or is cut off:
    zk-lock --lead --path /leaders/billing -- ./billing-service
  many may read while nobody writes:
    zk-lock --path /locks/prices --recipe read -- ./report.sh
    zk-lock --path /locks/prices --recipe write -- ./reprice.sh
  let the database refuse a holder that was overtaken:
    zk-lock --path /locks/ledger -- sh -c 'psql -v token=\"$LOCK_TOKEN\" -f settle.sql'
  who holds it, and who waits?
    zk-lock --list /locks/backup";

/// Run a command while holding a ZooKeeper lock, or show who holds one.
#[derive(Debug, Parser)]
#[command(
    name = "zk-lock",
    version,
    max_term_width = 120,
    override_usage = USAGE,
    after_help = EXIT_STATUS,
    after_long_help = format!("{EXIT_STATUS}\n\n{DETAILS}")
)]
pub(crate) struct Cli {
    /// ZooKeeper servers, as HOST:PORT,HOST:PORT/CHROOT
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "CONNECT", value_parser = NonEmptyStringValueParser::new())]
    zookeeper: String,
    /// Path of the lock; missing parents are created
    #[arg(long, required_unless_present = "list", conflicts_with = "list")]
    path: Option<String>,
    /// mutex, handoff (as mutex, for long queues), cohort (as mutex, for a lock that other programs hand over among their
    /// tasks), read, write, semaphore-mutex, semaphore=N (up to N hold at a time), naive (everyone watches one node) or leader (see --lead)
    #[arg(long, value_name = "RECIPE", default_value_t = Recipe::Mutex, conflicts_with = "list")]
    recipe: Recipe,
    /// Lead the election at PATH while COMMAND runs, as with --recipe leader; takes turns with Curator's LeaderLatch
    #[arg(long, conflicts_with_all = ["recipe", "list"])]
    lead: bool,
    /// How long to wait for the lock, such as 5s or 1m30s; 0s takes it only when it is free [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "list")]
    timeout: Option<Duration>,
    /// Silence after which ZooKeeper ends the session and frees the lock; the server has limits of its own
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_positive_time)]
    session_timeout: Duration,
    /// How long to try to reach a server
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_positive_time)]
    connect_timeout: Duration,
    /// What to do when the hold is lost while COMMAND runs
    #[arg(long, value_name = "ACTION", default_value = "kill", conflicts_with = "list")]
    on_lost: OnLost,
    /// How long after the loss COMMAND is killed if it is still there [default: 1/24 of the session timeout;
    /// with much more it may run beside the next holder]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "list")]
    kill_after: Option<Duration>,
    /// File with USER:PASSWORD, instead of ZK_LOCK_AUTH in the environment
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// PEM file of the authority that issued the certificates of the servers; all of them are spoken to by TLS
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the certificate that proves to the servers who this is
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Tell on standard error how long was waited and held, and the fencing token
    #[arg(short, long, conflicts_with = "list")]
    verbose: bool,
    /// Print the queue of the lock at PATH instead: position, holder or waiting, kind, session, token, node, data
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    list: Option<String>,
    /// Print the queue as JSON
    #[arg(long, requires = "list", conflicts_with_all = ["path", "command"])]
    json: bool,
    /// What to run, and its arguments
    #[arg(value_name = "COMMAND", required_unless_present = "list", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What becomes of COMMAND when its hold is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Stop it: SIGTERM, then SIGKILL
    Kill,
    /// Say so and let it go on
    Warn,
}

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Task {
    Run(RunSettings),
    List(ListSettings),
}

/// How to reach ZooKeeper.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    pub(crate) connect_string: String,
    pub(crate) session: SessionConfig,
}

/// What to run under which lock.
#[derive(Debug)]
pub(crate) struct RunSettings {
    pub(crate) server: ServerSettings,
    pub(crate) path: String,
    pub(crate) recipe: Recipe,
    /// `None` for ever.
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_lost: OnLost,
    /// `None` for what the session timeout allows.
    pub(crate) kill_after: Option<Duration>,
    pub(crate) command: Vec<OsString>,
}

/// Which queue to print.
#[derive(Debug)]
pub(crate) struct ListSettings {
    pub(crate) server: ServerSettings,
    pub(crate) path: String,
    pub(crate) json: bool,
}

impl Cli {
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Checks the path and reads the credentials and certificates; `variable` reads the environment.
    ///
    /// # Errors
    /// [`Error::Usage`] when the path can name no lock, that or [`Error::Credentials`] when the credentials are not there, or
    /// not as they must be, and [`Error::Pem`] when a certificate or key is not there.
    pub(crate) fn resolve(self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Task, Error> {
        for path in self.path.iter().chain(&self.list) {
            validate_path(path).map_err(|error| Error::Usage(error.to_string()))?;
        }
        let auth = match &self.auth_file {
            Some(file) => Some(auth_in(file)?),
            None => match variable(AUTH_VARIABLE) {
                Some(text) if !text.is_empty() => Some(parse_auth(&text, AUTH_VARIABLE)?),
                _ => None,
            },
        };
        let mut session = session_config(self.session_timeout, self.connect_timeout, auth);
        if let Some(authority) = &self.ca {
            session = session.with_tls(tls(authority, self.cert.as_deref().zip(self.key.as_deref()))?);
        }
        let server = ServerSettings { connect_string: self.zookeeper, session };
        Ok(match (self.list, self.path) {
            (Some(path), _) => Task::List(ListSettings { server, path, json: self.json }),
            (None, Some(path)) => Task::Run(RunSettings {
                server,
                path,
                recipe: if self.lead { Recipe::Leader } else { self.recipe },
                timeout: self.timeout,
                on_lost: self.on_lost,
                kill_after: self.kill_after,
                command: self.command,
            }),
            (None, None) => unreachable!("BUG: clap lets no command line without --path or --list through"),
        })
    }
}

fn session_config(timeout: Duration, connect_within: Duration, auth: Option<Auth>) -> SessionConfig {
    let config = SessionConfig::default().with_timeout(timeout).with_connect_within(connect_within);
    // Whoever has credentials wants nobody else to delete the nodes; that everyone sees the queue does no harm.
    let readable = || Acl::creator().and("world", "anyone", Permissions::READ);
    auth.map_or(config.clone(), |auth| config.with_auth(auth).with_acl(readable()))
}

fn tls(authority: &Path, identity: Option<(&Path, &Path)>) -> Result<Tls, Error> {
    let read = |file: &Path| fs::read_to_string(file).map_err(|source| Error::Pem { file: file.to_owned(), source });
    let tls = Tls::trusting(read(authority)?);
    match identity {
        Some((certificate, key)) => Ok(tls.with_identity(read(certificate)?, read(key)?)),
        None => Ok(tls),
    }
}

fn auth_in(file: &Path) -> Result<Auth, Error> {
    let text = fs::read(file).map_err(|source| Error::Credentials { file: file.to_owned(), source })?;
    // Editors end a file with a line break.
    let text = String::from_utf8_lossy(&text);
    parse_auth(OsStr::new(text.trim_end_matches(['\r', '\n'])), &file.display().to_string())
}

/// Reads `USER:PASSWORD`; the error shows neither.
fn parse_auth(text: &OsStr, place: &str) -> Result<Auth, Error> {
    match text.to_str().and_then(|text| text.split_once(':')) {
        Some((user, password)) if !user.is_empty() && !password.is_empty() && !has_control_characters(text) => {
            Ok(Auth::digest(user, password))
        }
        _ => Err(Error::Usage(format!("the credentials in {place} must be USER:PASSWORD, in UTF-8, on one line"))),
    }
}

fn has_control_characters(text: &OsStr) -> bool {
    text.as_encoded_bytes().iter().any(|byte| byte.is_ascii_control())
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
            Task::List(settings) => unreachable!("{settings:?} was not asked for"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_begins_at_the_first_word_that_is_no_option_with_or_without_dashes() {
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
            (with_place(&["--json", "ls"]), "cannot be used with"),
            (with_place(&["--lead", "--recipe", "leader", "ls"]), "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/a", "--lead"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/a", "--recipe", "read"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "ls"], "--path"),
            (with_place(&["--ca", "ca.pem", "--cert", "me.pem", "ls"]), "--key"),
            (with_place(&["--cert", "me.pem", "--key", "me.key", "ls"]), "--ca"),
            (vec!["zk-lock", "--zookeeper", "zk:2181", "--list", "/locks/a", "ls"], "cannot be used with"),
            (vec!["zk-lock", "--zookeeper", "", "--list", "/locks/a"], "a value is required"),
        ] {
            let error = refusal(&words);
            assert!(error.to_string().contains(expected), "{words:?}: {error}");
            assert!(error.use_stderr(), "{words:?}");
        }
    }

    #[test]
    fn a_path_that_can_name_no_lock_is_refused_before_anything_is_sent() {
        let place = ["zk-lock", "--zookeeper", "zk:2181"];
        for words in [&["--path", "locks/a", "ls"][..], &["--path", "/zookeeper/a", "ls"], &["--list", "/a/"]] {
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

    #[test]
    fn wrong_credentials_are_never_shown() {
        for wrong in ["sesame", ":sesame", "sesame:", "shop:ses\name"] {
            let error = parse(&["ls"]).resolve(|_| Some(wrong.into())).unwrap_err();
            assert_eq!(
                crate::error::chain(&error),
                "the credentials in ZK_LOCK_AUTH must be USER:PASSWORD, in UTF-8, on one line",
                "{wrong:?}"
            );
        }
    }
}
