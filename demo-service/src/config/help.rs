//! What `--help` says beside the flags.

use clap::Arg;
use program::{Epilogue, Exit};

/// The groups of the flags, each with its first flag, in the order of the fields of `Config`.
const GROUPS: [(&str, &str); 8] = [
    ("listen", "Addresses"),
    ("database_url", "Postgres"),
    ("zookeeper", "ZooKeeper"),
    ("redis_url", "Redis"),
    ("strategy", "Strategies"),
    ("lock_wait", "Deadlines"),
    ("concurrency_max", "Limits"),
    ("admin_token_file", "Administration"),
];

/// Returns a function that puts the flags into their groups, one flag after the other. It hides the values of the
/// environment, which may be secrets.
pub(super) fn grouped() -> impl FnMut(Arg) -> Arg {
    let mut heading = None;
    move |arg| {
        heading = GROUPS.iter().find(|(first, _)| *first == arg.get_id().as_str()).map(|(_, name)| *name).or(heading);
        arg.hide_env_values(true).help_heading(heading)
    }
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            (
                "serves on port 8080, with servers on this host",
                "demo-service --database-url postgres://localhost/shop --zookeeper localhost:2181",
            ),
            (
                "migrates the database for a service that owns no tables",
                "SERVICE_PASSWORD=… demo-service --migrate-only --database-url postgres://owner@db/shop",
            ),
        ])
        .environment(&[
            ("ADMIN_TOKEN", "bearer token that /admin asks for [default: no administration]"),
            (
                "SERVICE_PASSWORD",
                "password that --migrate-only gives to the role seckill_service [default: it keeps its password, and a new \
                 role may not log in]",
            ),
            (
                "ZOOKEEPER_AUTH",
                "USER:PASSWORD for ZooKeeper, where only that user may then use the locks. It is sent as it is: encrypt the \
                 connection [default: the locks are open to anyone]",
            ),
            ("RUST_LOG", "what is logged, for example info,demo_service=debug [default: info, and warnings of the libraries]"),
        ])
        .note("A file of a secret may end with a newline, which is no part of the secret.")
        .note("TIME is a number with its unit: 500ms, 10s or 1m30s.")
        .note(
            "SIGINT, SIGTERM and SIGHUP stop the service: it completes purchases in progress and releases its locks. A second \
             SIGINT or SIGTERM stops it at once. A SIGHUP that is ignored at the start, as under nohup, stays ignored.",
        )
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Setup, ", so the service cannot start"),
            (Exit::Usage, ", or names a server that refuses the service or does not fit"),
        ])
        .note("A signal gives 0. A second signal gives 128 + N: 130 after SIGINT, 143 after SIGTERM.")
}
