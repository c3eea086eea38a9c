//! A headless Chromium, used as a person would use it.

use std::path::Path;
use std::time::{Duration, Instant};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use nix::unistd::geteuid;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use testbed::{Process, ProcessConfig, Stdout};

use crate::support::{PATIENCE, TestFolder};

const POLL: Duration = Duration::from_millis(20);

/// A browser with one page.
pub(crate) struct Browser {
    client: Client,
    /// Stopped when this value is dropped, and the browser with it.
    _driver: Process,
}

/// Commands of this driver that the protocol does not have.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts the driver, which finds a free port and the browser by itself. Both keep what they write in the folder.
    pub(crate) async fn start(folder: &TestFolder) -> Browser {
        let mut driver = Process::spawn(ProcessConfig {
            stdout: Stdout::Lines,
            ..ProcessConfig::new("chromedriver").args(["--port=0"]).env("TMPDIR", folder.path("tmp"))
        })
        .unwrap_or_else(|error| panic!("{error}; `scripts/deps.sh test` installs it"));
        let port = loop {
            let line = driver.line(PATIENCE).await.unwrap().expect("chromedriver says which port it has");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        let mut args =
            vec!["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"];
        if geteuid().is_root() {
            args.push("--no-sandbox");
        }
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let Value::Object(capabilities) = capabilities else { unreachable!("it is an object") };
        let client = builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{port}")).await.unwrap();
        Browser { client, _driver: driver }
    }

    /// Opens a file.
    pub(crate) async fn open(&self, file: &Path) {
        self.client.goto(&format!("file://{}", file.display())).await.unwrap();
    }

    /// Runs a script, and returns its value.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script, and returns the value of its promise.
    pub(crate) async fn promised(&self, script: &str) -> Value {
        let script =
            format!("const done = arguments[arguments.length - 1]; ({script}).then(done, (e) => done(String(e)));");
        self.client.execute_async(&script, Vec::new()).await.unwrap()
    }

    /// Returns when the expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.run(&format!("return {expression};")).await != Value::Bool(true) {
            assert!(Instant::now() < deadline, "never true: {expression}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Presses one key at the element with the focus.
    pub(crate) async fn press(&self, key: char) {
        self.client.active_element().await.unwrap().send_keys(&key.to_string()).await.unwrap();
    }

    /// Sets the width of the page, independently of the window.
    pub(crate) async fn set_width(&self, width: u32) {
        let metrics = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Sets the preferred colour scheme of the system.
    pub(crate) async fn prefer_scheme(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.client.issue_cmd(Vendor { path: "goog/cdp/execute", body }).await.unwrap();
    }

    /// Returns what the page has written to its console since the last call.
    pub(crate) async fn console(&self) -> Vec<String> {
        self.log("browser").await
    }

    /// Returns the addresses that were asked for since the last call.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let events = self.log("performance").await;
        let events = events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
        let sent = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["message"]["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    async fn log(&self, kind: &str) -> Vec<String> {
        let entries = self.client.issue_cmd(Vendor { path: "se/log", body: json!({ "type": kind }) }).await.unwrap();
        entries.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes the browser.
    pub(crate) async fn close(self) {
        self.client.close().await.unwrap();
    }
}
