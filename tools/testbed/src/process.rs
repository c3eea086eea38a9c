//! Any program as a guarded child.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use program::FromSystem as _;
use tokio::sync::mpsc;

use crate::Error;
use crate::find::find_program;
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::pause::{pause, resume, signal};

/// Lines of output that are kept for [`Process::line`]; beyond them the program waits, as with any full pipe.
const LINES_MAX: usize = 1024;

/// The signal that asks a program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopSignal {
    /// `SIGINT`, as from Ctrl-C.
    Interrupt,
    /// `SIGTERM`, as from `kill` and from service managers.
    #[default]
    Terminate,
}

impl StopSignal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
        }
    }
}

/// The target of the standard output of a [`Process`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdout {
    /// Nowhere.
    #[default]
    Null,
    /// To the standard output of this process.
    Inherit,
    /// To [`Process::line`].
    Lines,
    /// To [`Process::line`], while standard input is what [`Process::say`] says.
    Dialogue,
    /// To the log, with the standard error.
    Log,
}

/// A program for [`Process::spawn`]. Its standard input is empty, except for [`Stdout::Dialogue`].
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// A path, or a name to be found in `PATH`.
    pub program: PathBuf,
    /// The arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Which environment variables of this process the program has.
    pub knows: fn(&OsStr) -> bool,
    /// Further environment variables.
    pub envs: Vec<(OsString, OsString)>,
    /// The signal that asks the program, and every process of its group, to stop.
    pub stop_signal: StopSignal,
    /// Time from the stop signal to the kill.
    pub stop_within: Duration,
    /// Where standard output goes.
    pub stdout: Stdout,
    /// The file that standard error is appended to. Without one it goes to a temporary file, whose end
    /// [`Process::log_tail`] returns.
    pub log_file: Option<PathBuf>,
}

impl ProcessConfig {
    /// Makes settings of a program without arguments, with the environment of this process. It is stopped by `SIGTERM`
    /// and killed ten seconds later, and its output is dropped.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            knows: |_| true,
            envs: Vec::new(),
            stop_signal: StopSignal::default(),
            stop_within: Duration::from_secs(10),
            stdout: Stdout::default(),
            log_file: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }
}

/// A child process that ends with this value, and with this process, however it ends.
///
/// Dropping it asks the program to stop and waits until it has, at most a little longer than `stop_within`. It belongs to no
/// runtime: a value may be made in one and dropped outside of any.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), testbed::Error> {
/// use std::time::Duration;
/// use testbed::{Process, ProcessConfig, Stdout};
///
/// let mut echo = Process::spawn(ProcessConfig {
///     stdout: Stdout::Lines,
///     ..ProcessConfig::new("echo").args(["hello"])
/// })?;
/// assert_eq!(echo.line(Duration::from_secs(10)).await?, Some("hello".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Process {
    name: String,
    guard: Guard,
    lines: Option<mpsc::Receiver<String>>,
    input: Option<UnixStream>,
}

impl Process {
    /// Starts a program under a guard of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchProgram`] when there is no such program, [`Error::System`] when the operating system refuses a process,
    /// a folder or the log file.
    pub fn spawn(config: ProcessConfig) -> Result<Self, Error> {
        let program =
            find_program(&config.program).ok_or_else(|| Error::NoSuchProgram { program: config.program.clone() })?;
        let launch = Launch {
            program,
            args: config.args,
            envs: config.envs,
            knows: config.knows,
            dir: None,
            stop_signal: config.stop_signal,
            stop_within: config.stop_within,
            stdout: match config.stdout {
                Stdout::Null => Output::Null,
                Stdout::Inherit => Output::Inherit,
                Stdout::Lines => Output::Pipe,
                Stdout::Dialogue => Output::Socket,
                Stdout::Log => Output::Log,
            },
            log_file: config.log_file,
        };
        let mut guard = Guard::spawn(launch, Folder::create(None)?)?;
        let name = config.program.display().to_string();
        let input = guard.take_dialogue();
        let output = input.as_ref().map(UnixStream::try_clone).transpose();
        let output = output.map_err(Error::system(format!("listen to {name}")))?;
        let lines = guard.take_stdout().map(lines_of).or_else(|| output.map(lines_of));
        Ok(Self { name, guard, lines, input })
    }

    /// Returns the process id of the program, for signals. It is not to be used once [`try_wait`](Self::try_wait) has
    /// returned a status, as the system may give it to another process then.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.guard.pid().as_raw()
    }

    /// Returns the next line of standard output, without its line break. `None` if the output has ended, or does not
    /// come here (see [`Stdout::Lines`]).
    ///
    /// # Errors
    ///
    /// [`Error::NotReady`], with the end of the log, when there is no line within the time.
    ///
    /// # Cancel safety
    ///
    /// No line is lost: the next call returns it.
    pub async fn line(&mut self, within: Duration) -> Result<Option<String>, Error> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        match tokio::time::timeout(within, lines.recv()).await {
            Ok(line) => Ok(line),
            Err(_) => Err(Error::NotReady { name: self.name.clone(), within, log: self.log_tail() }),
        }
    }

    /// Writes a line to the program's standard input. Blocks only while the program leaves many kilobytes unread.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the program has ended, and when its input does not come from here (see [`Stdout::Dialogue`]).
    pub fn say(&self, line: &str) -> Result<(), Error> {
        let written = match &self.input {
            Some(input) => (&*input).write_all(format!("{line}\n").as_bytes()),
            None => Err(io::ErrorKind::Unsupported.into()),
        };
        written.map_err(Error::system(format!("say {line:?} to {}", self.name)))
    }

    /// Returns the last few kilobytes of the log, also after the program has ended.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.guard.log_tail()
    }

    /// Returns the first few kilobytes of the log, also after the program has ended. They have the first error of a compiler.
    #[must_use]
    pub fn log_head(&self) -> String {
        self.guard.log_head()
    }

    /// Returns how the program ended, or `None` while it runs. An exit code above 128 becomes the signal that it stands
    /// for in a shell.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.guard.try_wait()
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing; the program goes on.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.guard.wait().await
    }

    /// Asks the program to stop without waiting for it, so that several can stop at once. If it still runs
    /// `stop_within` later, it is killed.
    pub fn request_stop(&self) {
        self.guard.request_stop();
    }

    /// Asks the program to stop, and waits until it has ended by itself or been killed.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell how it ended.
    ///
    /// # Cancel safety
    ///
    /// The program stops all the same; the drop of this value then waits for it, and blocks.
    pub async fn stop(mut self) -> Result<ExitStatus, Error> {
        self.request_stop();
        self.wait().await
    }

    /// Freezes the program (`SIGSTOP`) until [`resume`](Self::resume). It stands still when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the program does not run.
    pub fn pause(&self) -> Result<(), Error> {
        pause(&self.name, Some(&self.guard))
    }

    /// Lets a frozen program go on.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the program does not run.
    pub fn resume(&self) -> Result<(), Error> {
        resume(&self.name, Some(&self.guard))
    }

    /// Kills the program (`SIGKILL`), and waits until it has ended.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell how it ended.
    ///
    /// # Cancel safety
    ///
    /// The program ends all the same.
    pub async fn kill(mut self) -> Result<(), Error> {
        // This fails only if the program has ended.
        let _ = signal(&self.name, Some(&self.guard), Signal::SIGKILL);
        self.wait().await.map(drop)
    }
}

/// Reads lines on a thread of its own, which ends with the output or with the receiver.
fn lines_of(stdout: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if sender.blocking_send(line.trim_end_matches('\r').to_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}
