//! What `scripts/deps.sh` says, asks and runs. Programs of the same names stand in for the compiler and for what installs it.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use tempfile::TempDir;

use crate::architecture::root;

const COMMAND: &str = "sudo ./scripts/apt-install.sh gcc libc6-dev";

/// A Debian machine with everything but a C compiler, as a user who may use `sudo`.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn without_compiler() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(machine.programs()).unwrap();
        // A checkout of its own, so that nothing of this one is found.
        let scripts = machine.checkout().join("scripts");
        fs::create_dir_all(&scripts).unwrap();
        for name in ["deps.sh", "apt-unpack.sh"] {
            let script = root().join("scripts").join(name);
            symlink(script, scripts.join(name)).unwrap();
        }
        for tool in ["sh", "dirname", "paste", "uname", "touch", "chmod"] {
            symlink(find(tool), machine.programs().join(tool)).unwrap();
        }
        for there in ["cargo", "java", "initdb", "postgres", "apt-get"] {
            machine.add(there, "exit 0");
        }
        let jar = machine.folder.path().join("zookeeper-3.9.3.jar");
        File::create(jar).unwrap();
        machine.add("id", "echo 1000");
        let compiler = machine.programs().join("cc");
        let install = format!("touch {0}; chmod +x {0}", compiler.display());
        machine.add("sudo", &format!("echo \"sudo $*\" >>{}; {install}", machine.log().display()));
        machine
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn add(&self, name: &str, script: &str) {
        let program = self.programs().join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.programs().join(name)).unwrap();
    }

    /// Makes the same machine with a C compiler and without Java, which `apt-get` has as a package. Its program prints
    /// where it looks for libraries, behind a link to where the package would be installed.
    fn without_java() -> Self {
        let machine = Self::without_compiler();
        machine.add("cc", "exit 0");
        machine.remove("java");
        for tool in ["cat", "cp", "dpkg-deb", "find", "ln", "mkdir", "readlink", "rm", "sed", "tar"] {
            symlink(find(tool), machine.programs().join(tool)).unwrap();
        }
        let tree = machine.folder.path().join("tree");
        let home = tree.join("usr/lib/jvm/java");
        for folder in [&tree.join("DEBIAN"), &tree.join("usr/lib/x86_64-linux-gnu"), &home.join("bin")] {
            fs::create_dir_all(folder).unwrap();
        }
        let control = "Package: jre\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.example>\nDescription: a test\n";
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(home.join("launcher"), "#!/bin/sh\necho \"$LD_LIBRARY_PATH\"\n").unwrap();
        fs::set_permissions(home.join("launcher"), Permissions::from_mode(0o755)).unwrap();
        symlink("/usr/lib/jvm/java/launcher", home.join("bin/java")).unwrap();
        let package = machine.folder.path().join("jre.deb");
        let built = Command::new("dpkg-deb").arg("--build").args([&tree, &package]).output().unwrap();
        assert!(built.status.success(), "{}", stderr(&built));
        let download = format!("cp {} .", package.display());
        let script = format!("case $* in *--simulate*) echo 'Inst jre (1)' ;; *download*) {download} ;; esac");
        machine.add("apt-get", &script);
        machine
    }

    fn servers(&self) -> PathBuf {
        self.checkout().join("target/servers")
    }

    fn deps(&self) -> Command {
        let mut command = Command::new(self.checkout().join("scripts/deps.sh"));
        command.env("PATH", self.programs()).env("ZOOKEEPER_HOME", self.folder.path());
        for variable in ["INSTALL", "JAVA_HOME", "POSTGRES_BIN", "REDIS_BIN"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null());
        command
    }

    fn run(&self) -> Output {
        self.deps().output().unwrap()
    }

    /// Runs it on a terminal, and types `typed` when it asks. Returns its status and what the terminal shows.
    fn run_on_terminal(&self, command: &mut Command, typed: &str) -> (Option<i32>, String) {
        let terminal = openpty(None, None).unwrap();
        // A program that another test starts must not keep the terminal open.
        for side in [&terminal.master, &terminal.slave] {
            fcntl(side, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let mut settings = tcgetattr(&terminal.slave).unwrap();
        settings.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&terminal.slave, SetArg::TCSANOW, &settings).unwrap();
        let side = || Stdio::from(terminal.slave.try_clone().unwrap());
        let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // This process and the command drop the script's side, so that reading ends with the script.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(terminal.slave);
        let mut screen = File::from(terminal.master);
        let mut shown = String::new();
        let mut part = [0; 1024];
        let mut asked = false;
        // Linux reports the end as an error.
        while let Ok(length @ 1..) = screen.read(&mut part) {
            shown.push_str(&String::from_utf8_lossy(&part[..length]));
            if !asked && shown.ends_with("Install? [Y/n] ") {
                asked = true;
                screen.write_all(typed.as_bytes()).unwrap();
            }
        }
        (child.wait().unwrap().code(), shown)
    }

    /// Returns what was run as root.
    fn installed(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

fn find(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_a_terminal_it_says_what_is_missing_and_runs_it() {
    let machine = Machine::without_compiler();
    let output = machine.run();
    let expected = format!(
        "deps: missing: cc\ndeps: these commands install it, and start no service:\n    {COMMAND}\n+ {COMMAND}\n"
    );
    assert_eq!(stderr(&output), expected);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(machine.installed(), format!("{COMMAND}\n"));
}

// T5
#[test]
fn a_folder_that_a_variable_names_in_vain_is_a_usage_error() {
    let machine = Machine::without_compiler();
    for variable in ["POSTGRES_BIN", "ZOOKEEPER_HOME", "JAVA_HOME", "REDIS_BIN"] {
        let output = machine.deps().arg("test").env(variable, "/nowhere").output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.starts_with(&format!("deps: {variable} names /nowhere, but there is no ")), "{said}");
    }
    assert_eq!(machine.installed(), "");
}

#[test]
fn on_a_terminal_it_asks_once_and_enter_installs() {
    let machine = Machine::without_compiler();
    let (status, shown) = machine.run_on_terminal(&mut machine.deps(), "\n");
    assert_eq!(status, Some(0), "{shown}");
    assert_eq!(shown.matches("[Y/n]").count(), 1, "{shown}");
    let question = shown.find("Install?").unwrap();
    assert!(shown[..question].contains("missing: cc") && shown[..question].contains(COMMAND), "{shown}");
    assert_eq!(machine.installed(), format!("{COMMAND}\n"));
}

// T12
#[test]
fn it_asks_also_if_its_messages_go_elsewhere() {
    let machine = Machine::without_compiler();
    let mut command = Command::new(find("sh"));
    let script = machine.deps().get_program().to_owned();
    // The question may show elsewhere, so this one stands for it.
    command.arg("-c").arg("printf 'Install? [Y/n] '; \"$0\" 2>messages").arg(script).current_dir(machine.folder.path());
    command.env("PATH", machine.programs()).env("ZOOKEEPER_HOME", machine.folder.path());
    command.env_remove("INSTALL").env_remove("JAVA_HOME").env_remove("POSTGRES_BIN");
    let (status, shown) = machine.run_on_terminal(&mut command, "n\n");
    let messages = fs::read_to_string(machine.folder.path().join("messages")).unwrap();
    assert_eq!(status, Some(3), "{shown}{messages}");
    assert_eq!(machine.installed(), "");
}

#[test]
fn without_rights_java_is_unpacked_with_its_libraries() {
    let machine = Machine::without_java();
    machine.remove("sudo");
    let output = machine.run();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("\n+ ./scripts/apt-unpack.sh default-jre-headless\n"), "{}", stderr(&output));
    let started = Command::new(machine.servers().join("bin/java")).env("LD_LIBRARY_PATH", "/mine").output().unwrap();
    let libraries = machine.servers().join("unpacked/usr/lib/x86_64-linux-gnu");
    assert_eq!(String::from_utf8_lossy(&started.stdout), format!("{}:/mine\n", libraries.display()));
    assert_eq!(stderr(&machine.run()), "", "nothing is missing any more");
}

#[test]
fn a_variable_may_name_the_unpacked_servers() {
    let machine = Machine::without_java();
    let output = machine.deps().env("INSTALL", "unpack").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let named = machine.deps().env("JAVA_HOME", machine.servers()).output().unwrap();
    assert_eq!((stderr(&named).as_str(), named.status.code()), ("", Some(0)));
}

#[test]
fn install_unpack_neither_asks_nor_uses_sudo() {
    let machine = Machine::without_java();
    let (status, shown) = machine.run_on_terminal(machine.deps().env("INSTALL", "unpack"), "n\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains("[Y/n]") && !shown.contains("sudo"), "{shown}");
    assert_eq!(machine.installed(), "");
}

#[test]
fn a_user_whom_sudo_refuses_is_told_how_to_do_without() {
    let machine = Machine::without_java();
    machine.add("sudo", "echo 'pupil is not in the sudoers file' >&2; exit 1");
    let output = machine.run();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("without an administrator, INSTALL=unpack unpacks"), "{}", stderr(&output));
}

#[test]
fn what_would_start_or_replace_a_server_is_unpacked() {
    let machine = Machine::without_java();
    let output = machine.deps().arg("test").env("INSTALL", "no").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("\n    ./scripts/apt-unpack.sh prometheus"), "{said}");
    assert!(said.contains(" mariadb-server-core mariadb-client-core redis-server\n"), "{said}");
}

// T12
#[test]
fn the_commands_that_it_shows_can_be_pasted() {
    let machine = Machine::without_java();
    let output = machine.deps().arg("test").env("INSTALL", "no").output().unwrap();
    let said = stderr(&output);
    let commands: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(commands.len() > 5, "{said}");
    for command in commands {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " _./:=@%+,-".contains(letter);
        assert!(command.chars().all(is_plain), "a shell may read {command} otherwise");
    }
}

#[test]
fn on_a_terminal_no_ends_with_3_and_says_how_to_go_on() {
    for typed in ["n\n", "No\n", "what\n", "\u{4}"] {
        let machine = Machine::without_compiler();
        let (status, shown) = machine.run_on_terminal(&mut machine.deps(), typed);
        assert_eq!(status, Some(3), "{shown}");
        assert!(shown.contains("nothing was installed; run these commands, or install cc in another way"), "{shown}");
        assert_eq!(machine.installed(), "");
    }
}

#[test]
fn install_no_never_installs_nor_asks() {
    let machine = Machine::without_compiler();
    let output = machine.deps().env("INSTALL", "no").output().unwrap();
    let (status, shown) = machine.run_on_terminal(machine.deps().env("INSTALL", "no"), "\n");
    for (status, said) in [(output.status.code(), stderr(&output)), (status, shown)] {
        assert_eq!(status, Some(3), "{said}");
        assert!(said.contains("missing: cc") && said.contains(COMMAND) && !said.contains("[Y/n]"), "{said}");
    }
    assert_eq!(machine.installed(), "");
}

#[test]
fn install_yes_does_not_ask() {
    let machine = Machine::without_compiler();
    let (status, shown) = machine.run_on_terminal(machine.deps().env("INSTALL", "yes"), "n\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains("[Y/n]"), "{shown}");
    assert_eq!(machine.installed(), format!("{COMMAND}\n"));
}

#[test]
fn nothing_is_said_or_run_as_root_when_nothing_is_missing() {
    let machine = Machine::without_compiler();
    machine.add("cc", "exit 0");
    machine.remove("sudo");
    let output = machine.run();
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn programs_of_a_release_need_no_compiler_and_no_rust() {
    let machine = Machine::without_compiler();
    machine.remove("cargo");
    let output = machine.deps().arg("servers").output().unwrap();
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
    let output = machine.run();
    assert!(stderr(&output).contains("cargo not found"), "{}", stderr(&output));
}

#[test]
fn without_rights_an_administrator_is_told_what_to_run() {
    let machine = Machine::without_compiler();
    machine.remove("sudo");
    let output = machine.run();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("an administrator can run: ./scripts/apt-install.sh gcc libc6-dev"), "{said}");
}

#[test]
fn a_command_that_installs_nothing_is_found_out() {
    let machine = Machine::without_compiler();
    machine.add("sudo", "exit 0");
    let output = machine.run();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).ends_with("deps: installed, but still not found: cc\n"), "{}", stderr(&output));
}
