//! Secrets from the environment and from files.

// S99

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use testbed::StopSignal;

use crate::lab::{Lab, TOKEN};
use crate::program::{PROGRAM, Program};

/// The secrets: the variable of each, and the option for its file.
const SECRETS: [[&str; 2]; 4] = [
    ["ADMIN_TOKEN", "--admin-token-file"],
    ["REDIS_URL", "--redis-url-file"],
    ["SERVICE_PASSWORD", "--service-password-file"],
    ["ZOOKEEPER_AUTH", "--zookeeper-auth-file"],
];

/// Makes a command of the program with these options and without secrets in its environment.
fn program(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["--database-url", "postgres://localhost/lab", "--zookeeper", "localhost"]).args(options);
    for [variable, _] in SECRETS {
        command.env_remove(variable).env_remove(format!("{variable}_FILE"));
    }
    command
}

/// Runs the program, which must refuse its configuration, and returns what it says.
#[track_caller]
fn refusal(program: &mut Command) -> String {
    let output = program.output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(64), &b""[..]), "{complaint}");
    assert!(!complaint.contains("sesame"), "{complaint}");
    complaint
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_in_a_file_opens_the_administration() {
    let lab = Lab::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let variables = [("ADMIN_TOKEN", ""), ("ADMIN_TOKEN_FILE", file.to_str().unwrap())];
    let program = Program::start(&lab, StopSignal::Terminate, &[], &variables).await;
    program.put_on_sale(1, 1, "zk-mutex").await.assert_ok();
}

#[test]
fn every_secret_has_a_variable_or_a_file_and_not_both() {
    for [variable, option] in SECRETS {
        let expected = format!("{variable} and {option} ({variable}_FILE) are both given");
        let by_option = refusal(program(&[option, "/nowhere"]).env(variable, "shop:sesame"));
        assert!(by_option.contains(&expected), "{by_option}");
        let by_variable =
            refusal(program(&[]).env(variable, "shop:sesame").env(format!("{variable}_FILE"), "/nowhere"));
        assert!(by_variable.contains(&expected), "{by_variable}");
    }
}

#[test]
fn secrets_that_cannot_be_read_are_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, binary] = ["empty", "binary"].map(|name| folder.path().join(name));
    fs::write(&empty, "\n").unwrap();
    fs::write(&binary, b"sesame\xff").unwrap();
    let [empty, binary] = [&empty, &binary].map(|path| path.to_str().unwrap());
    for [variable, option] in SECRETS {
        for (file, reason) in [("/nowhere", "No such file"), (empty, "is empty"), (binary, "UTF-8")] {
            let complaint = refusal(&mut program(&[option, file]));
            for part in [reason, &format!("{file} of {option} ({variable}_FILE)")] {
                assert!(complaint.contains(part), "{part} in {complaint}");
            }
        }
        let complaint = refusal(program(&[]).env(variable, OsStr::from_bytes(b"sesame\xff")));
        assert!(complaint.contains(&format!("{variable} is not valid UTF-8")), "{complaint}");
    }
}
