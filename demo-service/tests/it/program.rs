//! The program in a process of its own.

use std::ops::Deref;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Process, ProcessConfig, ProcessStat, Stdout, StopSignal};

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
        // Only Linux tells.
        wait_until(async || ProcessStat::is_frozen(self.process.pid()).unwrap_or(true)).await;
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
