//! The search for the programs and libraries of the servers on this machine.

use std::cmp::Reverse;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// Homebrew's prefixes: Apple silicon, Intel, Linux.
const BREW_OPT: [&str; 3] = ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"];

/// Returns the folder of what `make deps` unpacks. It is laid out as the variables of the environment expect.
fn unpacked() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers")
}

/// Returns the program at `program`, or of that name in `PATH`.
pub(crate) fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return is_executable(program).then(|| program.to_owned());
    }
    path_folders().map(|folder| folder.join(program)).find(|candidate| is_executable(candidate))
}

/// Returns what `give` finds in the folder that `variable` names, or `None` if the variable is unset. The programs are started
/// in other folders, so the path is absolute.
///
/// A named folder is used or refused, and never skipped. Otherwise another version than intended would be measured.
fn named<T>(
    variable: &'static str,
    lacks: &'static str,
    give: impl FnOnce(&Path) -> Option<T>,
) -> Result<Option<T>, Error> {
    let Some(folder) = env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let folder = std::path::absolute(&folder).unwrap_or_else(|_| folder.into());
    give(&folder).map(Some).ok_or(Error::Misnamed { variable, folder, lacks })
}

/// Returns the folder that holds both `initdb` and `postgres`: the one of the environment variable `POSTGRES_BIN` if it
/// is set, or else the one that was unpacked.
///
/// Debian keeps them out of `PATH`, one folder a version.
///
/// # Errors
///
/// [`Error::NotInstalled`] when there is none; [`Error::Misnamed`] when the variable names a folder without them.
pub fn postgres_bin() -> Result<PathBuf, Error> {
    let has_both = |folder: &Path| ["initdb", "postgres"].iter().all(|name| is_executable(&folder.join(name)));
    if let Some(bin) =
        named("POSTGRES_BIN", "initdb and postgres in it", |folder| has_both(folder).then(|| folder.to_owned()))?
    {
        return Ok(bin);
    }
    let brewed = BREW_OPT.iter().flat_map(|opt| versions(opt.as_ref(), "postgresql"));
    let mut candidates = [unpacked().join("bin")]
        .into_iter()
        .chain(path_folders())
        .chain(pg_config_bindir())
        .chain(versions("/usr/lib/postgresql".as_ref(), "").map(|version| version.join("bin")))
        .chain(versions("/usr".as_ref(), "pgsql-").map(|version| version.join("bin")))
        .chain(brewed.map(|keg| keg.join("bin")));
    candidates.find(|folder| has_both(folder)).ok_or(Error::NotInstalled {
        what: "the Postgres server (initdb, postgres)",
        searched: "POSTGRES_BIN, target/servers, PATH, pg_config --bindir, /usr/lib/postgresql, Homebrew",
        remedy: "`apt-get install postgresql` (Debian, Ubuntu), `brew install postgresql@17` (macOS) or `make deps`",
    })
}

/// Returns the Java launcher.
///
/// If the environment variable `JAVA_HOME` is set, it names the launcher. Otherwise the unpacked one comes first, then
/// Homebrew's, then that in `PATH`, where macOS has a stub that only says how to get Java.
///
/// # Errors
///
/// [`Error::NotInstalled`] when there is none; [`Error::Misnamed`] when the variable names a folder without it.
pub fn java() -> Result<PathBuf, Error> {
    let launcher = |home: &Path| Some(home.join("bin/java")).filter(|java| is_executable(java));
    if let Some(java) = named("JAVA_HOME", "bin/java in it", launcher)? {
        return Ok(java);
    }
    let brewed = BREW_OPT.iter().flat_map(|opt| versions(opt.as_ref(), "openjdk"));
    [unpacked()]
        .into_iter()
        .chain(brewed)
        .map(|home| home.join("bin/java"))
        .chain(path_folders().map(|folder| folder.join("java")))
        .find(|java| is_executable(java))
        .ok_or(Error::NotInstalled {
            what: "Java",
            searched: "JAVA_HOME, target/servers, Homebrew, PATH",
            remedy: "`apt-get install default-jre-headless` (Debian, Ubuntu), `brew install openjdk` (macOS) or `make deps`",
        })
}

/// Returns the folder of Apache JMeter, with `bin/ApacheJMeter.jar` in it.
///
/// If the environment variable `JMETER_HOME` is set, it names the folder. Otherwise Debian's comes first, then Homebrew's.
pub(crate) fn jmeter_home() -> Result<PathBuf, Error> {
    let has_jar = |home: &Path| home.join("bin/ApacheJMeter.jar").is_file();
    if let Some(home) =
        named("JMETER_HOME", "bin/ApacheJMeter.jar in it", |home| has_jar(home).then(|| home.to_owned()))?
    {
        return Ok(home);
    }
    let brewed = BREW_OPT.iter().map(|opt| Path::new(opt).join("jmeter/libexec"));
    let mut homes = [PathBuf::from("/usr/share/jmeter")].into_iter().chain(brewed);
    homes.find(|home| has_jar(home)).ok_or(Error::NotInstalled {
        what: "Apache JMeter (bin/ApacheJMeter.jar)",
        searched: "JMETER_HOME, /usr/share/jmeter, Homebrew",
        remedy: "`make deps-test`",
    })
}

/// Returns the pooler pgbouncer. `make deps-test` unpacks Debian's package and does not install it, because it comes
/// with a service that starts with the machine.
pub(crate) fn pgbouncer() -> Result<PathBuf, Error> {
    let mut folders = [unpacked().join("bin")].into_iter().chain(path_folders()).chain([PathBuf::from("/usr/sbin")]);
    folders.find_map(|folder| find_program(&folder.join("pgbouncer"))).ok_or(Error::NotInstalled {
        what: "pgbouncer",
        searched: "target/servers, PATH, /usr/sbin",
        remedy: "`make deps-test`",
    })
}

/// Returns the library that steps the clock of a process. `make deps-test` unpacks Debian's package.
pub(crate) fn libfaketime() -> Result<PathBuf, Error> {
    let unpacked = unpacked().join("unpacked/usr");
    let usr = Path::new("/usr");
    let folders = [unpacked.as_path(), usr].into_iter().flat_map(|usr| {
        let lib = usr.join("lib");
        // Debian has a folder for each kind of machine.
        names(&lib).map(|name| lib.join(name)).chain([lib.clone(), usr.join("lib64")]).collect::<Vec<_>>()
    });
    let library = |folder: PathBuf| Some(folder.join("faketime/libfaketime.so.1")).filter(|library| library.is_file());
    folders.into_iter().find_map(library).ok_or(Error::NotInstalled {
        what: "libfaketime",
        searched: "target/servers, /usr/lib, /usr/lib64",
        remedy: "`make deps-test` (Linux)",
    })
}

/// The programs of MariaDB.
#[derive(Debug)]
pub(crate) struct MariaDbPrograms {
    /// Creates the system tables.
    pub(crate) install: PathBuf,
    pub(crate) server: PathBuf,
    /// The folder of the files beside the programs. `None` if the programs know it.
    pub(crate) base: Option<PathBuf>,
}

/// Returns the programs of MariaDB. `make deps-test` unpacks Debian's packages and does not install them, because they would
/// replace those of an installed MySQL.
pub(crate) fn mariadb() -> Result<MariaDbPrograms, Error> {
    let find = |folders: &[PathBuf], name: &str| folders.iter().find_map(|folder| find_program(&folder.join(name)));
    let programs = |folders: &[PathBuf], base| {
        let install = find(folders, "mariadb-install-db")?;
        Some(MariaDbPrograms { install, server: find(folders, "mariadbd")?, base })
    };
    let ours = [unpacked().join("bin")];
    let brewed = BREW_OPT.iter().flat_map(|opt| versions(opt.as_ref(), "mariadb")).map(|keg| keg.join("bin"));
    let installed: Vec<_> = path_folders().chain([PathBuf::from("/usr/sbin")]).chain(brewed).collect();
    programs(&ours, Some(unpacked().join("unpacked/usr"))).or_else(|| programs(&installed, None)).ok_or(
        Error::NotInstalled {
            what: "the MariaDB server (mariadb-install-db, mariadbd)",
            searched: "target/servers, PATH, /usr/sbin, Homebrew",
            remedy: "`make deps-test`",
        },
    )
}

/// Returns the server of Redis: the one in the folder of the environment variable `REDIS_BIN` if it is set, or else the one that
/// was unpacked. `make deps-test` unpacks Debian's package and does not install it, because it comes with a service that starts
/// with the machine.
pub(crate) fn redis_server() -> Result<PathBuf, Error> {
    let server = |folder: &Path| find_program(&folder.join("redis-server"));
    if let Some(server) = named("REDIS_BIN", "redis-server in it", server)? {
        return Ok(server);
    }
    let brewed = BREW_OPT.iter().map(|opt| Path::new(opt).join("redis/bin"));
    let mut folders = [unpacked().join("bin")].into_iter().chain(path_folders()).chain(brewed);
    folders.find_map(|folder| server(&folder)).ok_or(Error::NotInstalled {
        what: "the Redis server (redis-server)",
        searched: "REDIS_BIN, target/servers, PATH, Homebrew",
        remedy: "`make deps-test`",
    })
}

/// Returns the folder of the programs of Redis.
///
/// # Errors
///
/// [`Error::NotInstalled`] without Redis on this machine; [`Error::Misnamed`] when `REDIS_BIN` names a folder without it.
pub fn redis_bin() -> Result<PathBuf, Error> {
    Ok(redis_server()?.parent().map(Path::to_owned).unwrap_or_default())
}

/// Returns the class path of the ZooKeeper server, without the folder of its logging configuration.
pub(crate) fn zookeeper_class_path() -> Result<OsString, Error> {
    let lacks = "zookeeper-N.jar in it or in its folder lib";
    if let Some(class_path) = named("ZOOKEEPER_HOME", lacks, tarball_class_path)? {
        return Ok(class_path);
    }
    let debian = Path::new("/usr/share/java");
    let mut homes = [unpacked()]
        .into_iter()
        .chain(BREW_OPT.iter().map(|opt| Path::new(opt).join("zookeeper/libexec")))
        .chain(["/opt/zookeeper", "/usr/local/zookeeper", "/usr/share/zookeeper"].map(PathBuf::from));
    homes.find_map(|home| tarball_class_path(&home)).or_else(|| debian_class_path(debian)).ok_or(Error::NotInstalled {
        what: "the ZooKeeper server (zookeeper.jar)",
        searched: "ZOOKEEPER_HOME, target/servers, Homebrew, /opt/zookeeper, /usr/local/zookeeper, /usr/share/java",
        remedy: "`apt-get install libzookeeper-java` (Debian, Ubuntu), `brew install zookeeper` (macOS) or `make deps`",
    })
}

/// Returns `lib/*` of an unpacked release, and the release itself, where old ones keep the server's own jar.
fn tarball_class_path(home: &Path) -> Option<OsString> {
    // A digit follows in the name of the server's own jar, as in `zookeeper-3.9.3.jar`, and not in the names of its parts.
    let is_server = |name: &str| {
        name.strip_prefix("zookeeper-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            && name.ends_with(".jar")
    };
    let has_server = |folder: &Path| names(folder).any(|name| is_server(&name));
    let lib = home.join("lib");
    (has_server(&lib) || has_server(home)).then(|| class_path([lib.join("*"), home.join("*")]))
}

/// The jars that Debian's jar needs and does not name: a backend for the logging facade, without which errors would be
/// lost, and the parts of Netty that only TLS needs.
const DEBIAN_UNNAMED: [&str; 3] = ["slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar"];

/// Returns Debian's jar, which names most of its dependencies, and those that it does not name.
fn debian_class_path(folder: &Path) -> Option<OsString> {
    let server = folder.join("zookeeper.jar");
    server.is_file().then(|| class_path([server].into_iter().chain(DEBIAN_UNNAMED.map(|jar| folder.join(jar)))))
}

pub(crate) fn class_path(entries: impl IntoIterator<Item = PathBuf>) -> OsString {
    entries.into_iter().map(PathBuf::into_os_string).collect::<Vec<_>>().join(OsStr::new(":"))
}

/// Returns the folders `prefix…` of `parent`, the newest version first.
fn versions(parent: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<String> = names(parent).filter(|name| name.starts_with(prefix)).collect();
    found.sort_by_key(|name| Reverse(version_of(name)));
    let parent = parent.to_owned();
    found.into_iter().map(move |name| parent.join(name))
}

/// Returns the numbers of a name: `postgresql@9.6` is older than `postgresql@15`.
fn version_of(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn pg_config_bindir() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

fn path_folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_newest_version_comes_first_by_number_not_by_letter() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["postgresql@9.6", "postgresql@15", "postgresql@14", "openjdk"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        let found: Vec<_> = versions(parent.path(), "postgresql").collect();
        let expected = ["postgresql@15", "postgresql@14", "postgresql@9.6"].map(|name| parent.path().join(name));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_folder_that_does_not_exist_has_no_versions() {
        assert_eq!(versions("/nonexistent".as_ref(), "").count(), 0);
    }

    #[test]
    fn the_jars_of_an_unpacked_release_are_its_class_path() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(tarball_class_path(home.path()), None);
        touch(&home.path().join("lib/zookeeper-jute-3.9.3.jar"));
        assert_eq!(tarball_class_path(home.path()), None, "the wire format alone is not the server");
        touch(&home.path().join("lib/zookeeper-3.9.3.jar"));
        let path = home.path().display();
        assert_eq!(tarball_class_path(home.path()).unwrap(), OsString::from(format!("{path}/lib/*:{path}/*")));
    }

    #[test]
    fn debians_jar_gets_what_it_needs_and_does_not_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(debian_class_path(folder.path()), None);
        touch(&folder.path().join("zookeeper.jar"));
        let path = folder.path().display();
        let expected = ["zookeeper", "slf4j-simple", "netty-codec", "netty-resolver"]
            .map(|jar| format!("{path}/{jar}.jar"))
            .join(":");
        assert_eq!(debian_class_path(folder.path()).unwrap(), OsString::from(expected));
    }

    #[test]
    fn a_program_is_found_by_path_or_by_name_and_must_be_executable() {
        assert_eq!(find_program("/bin/sh".as_ref()), Some(PathBuf::from("/bin/sh")));
        assert!(find_program("sh".as_ref()).is_some());
        let folder = tempfile::tempdir().unwrap();
        touch(&folder.path().join("plain"));
        assert_eq!(find_program(&folder.path().join("plain")), None);
        assert_eq!(find_program("no-such-program-anywhere".as_ref()), None);
    }
}
