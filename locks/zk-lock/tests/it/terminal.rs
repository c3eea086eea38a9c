//! The program at a terminal of its own: a pseudo-terminal whose other end is the test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::pty::openpty;

use crate::support::{FaultyLab, Lab, PATH, PROGRAM, is_gone, until};

/// A `zk-lock` that leads a session whose terminal is ours; killed when the test is over.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(lab: &Lab, connect_string: &str, args: &[String]) -> Self {
        let pty = openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = testbed::with_default_signals("setsid")
            .args(["--ctty", PROGRAM])
            .args(args)
            .env("ZOOKEEPER_CONNECT", connect_string)
            .current_dir(lab.file("."))
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let terminal = Self { child, keyboard: File::from(pty.master), screen: Arc::clone(&screen) };
        let mut output = terminal.keyboard.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            // It ends, with an error, when nobody has the terminal open any more.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                screen.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        terminal
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn until_shows(&self, text: &str) {
        until(&format!("the terminal shows {text:?}, and not {:?}", self.shown()), async || {
            self.shown().contains(text)
        })
        .await;
    }

    /// Waits for the status, as a shell shows it.
    async fn status(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let mut status = None;
        until("zk-lock has ended", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        let status = status.unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Already gone, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CTRL_C: &str = "\x03";

#[tokio::test(flavor = "multi_thread")]
async fn the_command_at_a_terminal_reads_it_and_gets_ctrl_c_once() {
    let lab = Lab::new().await;
    let script = "n=0; trap 'n=$((n + 1)); echo interrupted $n' INT; echo ready; \
                  until read line; do :; done; echo \"read $line, interrupted $n\"; exit 4";
    let mut terminal = Terminal::start(&lab, &lab.connect_string, &lab.script(&[], script));
    terminal.until_shows("ready").await;
    terminal.types(CTRL_C);
    terminal.until_shows("interrupted 1").await;
    terminal.types("words\n");
    terminal.until_shows("read words, interrupted 1").await;
    assert_eq!(terminal.status().await, 4, "{}", terminal.shown());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_command_that_does_not_mind_and_frees_the_lock() {
    let lab = Lab::new().await;
    let mut terminal = Terminal::start(&lab, &lab.connect_string, &lab.script(&[], "echo ready; exec sleep 1000"));
    terminal.until_shows("ready").await;
    terminal.types(CTRL_C);
    assert_eq!(terminal.status().await, 130, "{}", terminal.shown());
    assert!(lab.queue(PATH).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hold_at_a_terminal_stops_all_descendants() {
    let faulty = FaultyLab::new().await;
    let inner = "trap : TERM; echo $$ >inner; while :; do sleep 0.02; done";
    let script = faulty.lab.script(&["--session-timeout", "4s"], &format!("echo $$ >outer; sh -c '{inner}'; exit 3"));
    let mut terminal = Terminal::start(&faulty.lab, &faulty.proxy.connect_string(), &script);
    let outer = faulty.lab.pid_in("outer").await;
    let inner = faulty.lab.pid_in("inner").await;
    faulty.proxy.blackhole();
    assert_eq!(terminal.status().await, 76, "{}", terminal.shown());
    assert!(is_gone(outer) && is_gone(inner));
    terminal.until_shows("the command was stopped").await;
}
