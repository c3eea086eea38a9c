//! The program in a process of its own.

use std::fs;
use std::ops::Deref;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Process, ProcessConfig, Stdout, StopSignal};

use crate::lab::{Lab, Shop, TOKEN, wait_until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_demo-service");

/// How long the program may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// An instance of the service in a process of its own.
pub(crate) struct Program {
    pub(crate) process: Process,
    shop: Shop,
}

impl Program {
    /// Starts it, with arguments and with variables of the environment.
    pub(crate) async fn start(lab: &Lab, stop_signal: StopSignal, arguments: &[&str], envs: &[(&str, &str)]) -> Self {
        let config = ProcessConfig::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--db-connections", "5"])
            .args(arguments)
            .env("DATABASE_URL", &lab.service_database_url)
            .env("ZOOKEEPER_CONNECT", &lab.zookeeper)
            .env("REDIS_URL", &lab.redis)
            .env("ADMIN_TOKEN", TOKEN);
        let config = envs.iter().fold(config, |config, (name, value)| config.env(name, value));
        let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Lines, stop_signal, ..config }).unwrap();
        let line = process.line(READY_WITHIN).await.unwrap().unwrap_or_else(|| panic!("{}", process.log_tail()));
        let address = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}"));
        Self { shop: Shop::at(address.parse().unwrap()), process }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.pid()), signal).unwrap();
    }

    /// Pauses the process, and waits until each of its threads stands still. At the signal itself, a thread may still run.
    pub(crate) async fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        let threads = format!("/proc/{}/task", self.process.pid());
        wait_until(async || {
            let stands_still = |thread: fs::DirEntry| {
                let stat = fs::read_to_string(thread.path().join("stat"));
                // The state follows the name, which stands in brackets. A thread that has ended has no file.
                stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
            };
            // Only Linux has the folder.
            fs::read_dir(&threads).map_or(true, |mut threads| threads.all(|thread| stands_still(thread.unwrap())))
        })
        .await;
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }
}

impl Deref for Program {
    type Target = Shop;

    fn deref(&self) -> &Shop {
        &self.shop
    }
}
