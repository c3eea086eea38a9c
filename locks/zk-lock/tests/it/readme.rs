//! Each command in `README.md` runs.

use testbed::ProcessConfig;

use crate::support::{Lab, PROGRAM, Running};

const README: &str = include_str!("../../README.md");

/// Makes the programs that the commands run, in the folder of the test, which `PATH` names first.
const PROGRAMS: &str =
    "for name in job backup.sh billing nightly; do printf '#!/bin/sh\\necho ran\\n' >$name && chmod +x $name; done";

/// Returns the commands in blocks for a shell, in a crontab, in units of systemd, and in the table.
fn commands() -> Vec<&'static str> {
    let mut commands = Vec::new();
    let mut block = "";
    for line in README.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            block = kind;
            continue;
        }
        match block {
            "sh" => commands.push(line),
            "crontab" => commands.extend(line.split_once(" root ").map(|(_, command)| command)),
            "ini" => commands.extend(line.strip_prefix("ExecStart=")),
            _ => commands.extend(line.split('`').skip(1).step_by(2)),
        }
    }
    commands.retain(|command| command.trim_start_matches("/usr/local/bin/").starts_with("zk-lock --"));
    commands
}

// Z11
#[tokio::test(flavor = "multi_thread")]
async fn every_command_in_the_readme_runs() {
    let commands = commands();
    assert!(commands.len() > 9, "{commands:?}");
    for command in commands {
        let lab = Lab::new().await;
        // The servers are in the environment, the programs in the folder, and nobody waits for ten minutes.
        let command = command
            .replace(" --zookeeper 127.0.0.1:2181", "")
            .replace("/usr/local/bin/", "")
            .replace(" 10m ", " 10ms ")
            .replace("sleep infinity", "echo ran")
            .replace("LINE", "echo ran");
        let folder = lab.file("");
        let script = format!(
            "cd '{0}' && ln -s '{PROGRAM}' zk-lock && {PROGRAMS} && PATH='{0}':$PATH && {command}",
            folder.display()
        );
        let config = ProcessConfig { program: "sh".into(), ..lab.config(["-c", &script]) };
        let finished = Running::start(config).finish().await;
        finished.assert_status(0);
        let expected = match command.contains("/locks/") {
            _ if command.contains(" -- ") => "ran\n",
            true => "nobody holds",
            // A page, which has many lines.
            false => "",
        };
        assert!(finished.stdout.starts_with(expected), "{command}: {}", finished.stdout);
        assert_eq!(finished.stderr, "", "{command}");
    }
}
