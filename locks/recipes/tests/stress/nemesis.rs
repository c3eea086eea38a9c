//! The faults of the network and of the server, and what is done to nodes by hand.

pub(crate) mod nodes;

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use testbed::ZooKeeper;

use crate::record::Subject;
use crate::stress_run::StressRun;

/// Disturbs the network of one session until the run is to end, and heals it then.
pub(crate) async fn disturb(run: Arc<StressRun>, session_number: usize) {
    let mut rng = run.rng(200 + session_number as u64);
    let record = &run.record;
    let session = &run.sessions[session_number];
    let proxy = &session.proxy;
    let subject = Subject::Session(session.index);
    while record.pause(Duration::from_millis(rng.random_range(300..6000))).await {
        match rng.random_range(0..100) {
            0..35 => {
                record.fault(subject, "cuts");
                proxy.cut();
            }
            35..65 => {
                // From a short delay to far more than the session timeout.
                let times = if rng.random_bool(0.4) { 0.0..0.5 } else { 0.5..2.5 };
                let time = session.timeout.mul_f64(rng.random_range(times));
                let patience = if rng.random_bool(0.8) { Duration::from_secs(3) } else { Duration::ZERO };
                session.silence(patience).await;
                record.fault(subject, "blackholes");
                record.pause(time).await;
                if rng.random_bool(0.4) {
                    // What was held back is lost.
                    proxy.cut();
                }
                session.deliver();
                record.note(subject, format!("delivers again after {time:?}"));
            }
            65..82 => {
                record.fault(subject, "lost replies");
                proxy.swallow_replies();
                record.pause(Duration::from_millis(rng.random_range(1..400))).await;
                proxy.cut();
                proxy.deliver();
                record.note(subject, "cut after the lost replies");
            }
            82..94 => {
                record.fault(subject, "refusals of connections");
                proxy.refuse();
                proxy.cut();
                record.pause(session.timeout.mul_f64(rng.random())).await;
                proxy.accept();
                record.note(subject, "accepts again");
            }
            _ => {
                record.fault(subject, "sessions closed");
                let _ = session.session().close().await;
            }
        }
    }
    proxy.accept();
    proxy.deliver();
    record.note(subject, "healed");
}

/// Restarts, kills and freezes the server until the run is to end. Returns the server, which runs.
pub(crate) async fn restart(run: &StressRun, mut server: ZooKeeper) -> ZooKeeper {
    let mut rng = run.rng(300);
    let record = &run.record;
    while record.pause(Duration::from_millis(rng.random_range(3000..14000))).await {
        match rng.random_range(0..10) {
            0..3 => {
                record.fault(Subject::Server, "restarts");
                server.stop().await.unwrap();
            }
            3..7 => {
                record.fault(Subject::Server, "kills of the server");
                let pid = server.pid().expect("the server runs");
                kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
                server.stop().await.unwrap();
            }
            _ => {
                record.fault(Subject::Server, "freezes of the server");
                server.pause().unwrap();
                record.pause(Duration::from_millis(rng.random_range(50..2500))).await;
                server.resume().unwrap();
                record.note(Subject::Server, "thawed");
                continue;
            }
        }
        record.pause(Duration::from_millis(rng.random_range(0..1500))).await;
        server.start_again().await.unwrap();
        record.note(Subject::Server, "runs again");
    }
    server
}
