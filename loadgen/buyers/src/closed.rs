//! Closed models: each of N users waits for its answer before it asks again. The users are goose's. They run our scenario, or one
//! of a goose user.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use goose::config::GooseConfiguration;
use goose::goose::{GooseUser, Scenario, Transaction};
use goose::{GooseAttack, GooseError};
use reqwest::Client;
use stats::as_f64;
use tokio::task::JoinSet;

use super::buyer::Buyer;
use super::gate::{CancelOnDrop, Gate};
use super::load::{Load, LoadResult, Purchase, cpu_time};
use crate::Error;
use crate::health::Dropped;
use crate::heartbeat::Heartbeat;
use crate::model::LoadModel;
use crate::scenario::ScenarioBuyers;
use crate::tally::{SharedTally, Tally, close};

/// Users that goose starts a second if they meet at the rendezvous, so that their pace does not matter.
const USERS_PER_SECOND: f64 = 100_000.0;
/// How long goose may take for its own start and end, besides the load.
const GOOSE_GRACE: Duration = Duration::from_secs(15);
/// The pause of a looping user whose request had no answer at all, so that an instance that is gone is not asked tens of
/// thousands of times a second.
const FAILED_PAUSE: Duration = Duration::from_millis(10);

/// Runs a closed model.
pub(crate) async fn run(load: Load) -> Result<LoadResult, Error> {
    let load = Arc::new(load);
    let gate = Gate::new(load.users);
    let _cancel = CancelOnDrop(Arc::clone(&gate));
    let tally = Arc::new(Mutex::new(load.tally()));
    let clients = load.clients()?;
    let (scenario, own) = match &load.purchase {
        Purchase::Scenario(own) => {
            let buyers = ScenarioBuyers::of(own, &load.model, load.answer_within, (&gate, &tally));
            (buyers.watched(&own.scenario), Some(buyers))
        }
        Purchase::Lab(_) | Purchase::Shop(_) => (ours(&load, &clients, &gate, &tally), None),
    };
    let attack = attack(&load, scenario)?;

    let loading = async {
        connect(&clients, &load).await;
        // If a user is missing, the others would wait at the gate until the limit of the attack.
        let released = gate.open(load.arrive_within).await.inspect_err(|_| gate.cancel())?;
        let cpu_start = cpu_time();
        let heartbeat = Heartbeat::start(&tally);
        let released_at = SystemTime::now() - released.elapsed();
        let done = gate.left().await;
        let processors = heartbeat.stop().await;
        let cpu_time = Some(cpu_time().saturating_sub(cpu_start));
        if done < load.users {
            return Err(Error::Generator(format!("only {done} of {} users reported back", load.users)));
        }
        let dropped = Dropped::default();
        let tally = close(&tally, &load.model, dropped);
        Ok(LoadResult { tally, is_open: false, dropped, released_at, cpu_time, processors })
    };
    // Goose waits for ever for a user that panics. Nothing here panics, but this limit does not rely on that.
    let limit = load.arrive_within + load.model.duration() + load.answer_within + GOOSE_GRACE;
    let attacking = async {
        let ended = tokio::time::timeout(limit, attack.execute()).await;
        if let Some(own) = &own {
            own.close();
        }
        // Users that are still missing must not begin now.
        gate.cancel();
        match ended {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(goose_failed(&error)),
            Err(_) => Err(Error::Generator(format!("goose did not end within {} s", limit.as_secs()))),
        }
    };
    let failing = async {
        match &own {
            Some(own) => own.failed().await,
            None => std::future::pending().await,
        }
    };
    let (result, attacked) = tokio::select! {
        // The failure of a buyer explains all others.
        biased;
        error = failing => return Err(error),
        ended = async { tokio::join!(loading, attacking) } => ended,
    };
    // If goose failed, its error explains the missing users.
    attacked?;
    result
}

/// Opens a connection for every user of a load that begins with all of them, so that a burst is one of requests and not of
/// handshakes. An instance that does not answer shows in the load itself.
async fn connect(clients: &[Client], load: &Load) {
    if !load.model.starts_together() {
        return;
    }
    let probes = load.purchase.probes().iter().cycle().zip(clients.iter().cycle()).take(load.users);
    let probes = probes.map(|(url, client)| client.get(url.clone()).send());
    let answers = tokio::time::timeout(load.arrive_within, JoinSet::from_iter(probes).join_all()).await;
    // Read only now: a connection whose answer has been read would serve the probes of others too.
    for answer in answers.into_iter().flatten().flatten() {
        let _ = answer.bytes().await;
    }
}

/// Makes a goose attack of one iteration of a scenario, in which each user buys all that it buys.
fn attack(load: &Load, scenario: Scenario) -> Result<GooseAttack, Error> {
    let mut configuration = GooseConfiguration::default();
    // Every request names its own URL; goose merely wants a host to be set.
    configuration.host = load.purchase.probes().first().map(ToString::to_string);
    configuration.users = Some(load.users);
    configuration.increase_rate = Some(users_per_second(load).to_string());
    configuration.iterations = Some(1);
    configuration.no_telnet = true;
    configuration.no_print_metrics = true;
    configuration.quiet = 1;
    match &load.goose_report {
        None => configuration.no_metrics = true,
        Some(path) => {
            let not_utf8 =
                || Error::Generator(format!("goose writes no file whose path is not UTF-8: {}", path.display()));
            configuration.report_file = vec![path.to_str().ok_or_else(not_utf8)?.to_owned()];
        }
    }
    // Unused, but without it goose would make a client for every user, and read all root certificates for each.
    let unused = goose::client::GooseClientBuilder::new().without_cookies();
    let attack = GooseAttack::initialize_with_config(configuration);
    let attack = attack.and_then(|attack| attack.set_client_builder_without_cookies(unused));
    Ok(attack.map_err(|error| goose_failed(&error))?.register_scenario(scenario))
}

/// Makes the scenario of one transaction that buys what the load says.
fn ours(load: &Arc<Load>, clients: &[Client], gate: &Arc<Gate>, tally: &SharedTally) -> Scenario {
    // Goose does things of its own between two transactions, so the rendezvous is in the one that buys.
    let gate = Arc::clone(gate);
    let tally = Arc::clone(tally);
    let load = Arc::clone(load);
    let clients = clients.to_owned();
    let shop = Transaction::new(Arc::new(move |user: &mut GooseUser| {
        let gate = Arc::clone(&gate);
        let load = Arc::clone(&load);
        let tally = Arc::clone(&tally);
        user.client.clone_from(&clients[user.weighted_users_index % clients.len()]);
        Box::pin(async move {
            tokio::select! {
                done = shop(user, &load, &gate, &tally) => if done.is_some() {
                    gate.leave();
                },
                () = gate.cancelled() => {}
            }
            Ok(())
        })
    }));
    Scenario::new("flash sale").register_transaction(shop.set_name("shop"))
}

/// Returns the users that goose starts per second. Goose starts them at even distances, the last one at the end of the ramp-up.
fn users_per_second(load: &Load) -> f64 {
    if matches!(load.purchase, Purchase::Scenario(_)) {
        // The users of a ramp meet too, after all have logged in, and each waits for its own start then.
        return USERS_PER_SECOND;
    }
    let last = load.users.saturating_sub(1);
    let ramp_up = load.model.first_start(last, load.users);
    if ramp_up.is_zero() { USERS_PER_SECOND } else { as_f64(last) / ramp_up.as_secs_f64() }
}

fn goose_failed(error: &GooseError) -> Error {
    Error::Generator(format!("goose: {error}"))
}

/// Waits at the rendezvous, then sends all requests of one user. Returns `None` if the load was cancelled meanwhile.
async fn shop(goose: &mut GooseUser, load: &Load, gate: &Gate, tally: &Mutex<Tally>) -> Option<()> {
    let user = goose.weighted_users_index;
    let mut customer = load.purchase.customer(user);
    if load.model.starts_together() {
        gate.arrive().await;
    } else {
        // Goose counts its ramp from its own start.
        gate.open_as_of(goose.started.into());
    }
    let released = gate.opened_at()?;
    let mut intended = load.model.first_start(user, load.users);
    let mut number = user;
    loop {
        // Goose counts a ramp in whole milliseconds, so it may start a user a fraction of one too early.
        if released.elapsed() < intended {
            tokio::time::sleep_until(released + intended).await;
        }
        let of = load.model.buyer_of(number);
        let buyer = Buyer { user, number, of, released, intended, idle_since: intended };
        let end = load.purchase.buy(tally, buyer, customer.as_mut(), goose).await?;
        // In a closed loop a user wants the next unit as soon as it has its answer.
        intended = end.ended;
        number += load.users;
        if end.failed {
            tokio::time::sleep(FAILED_PAUSE).await;
            // The pause is intended, so it is no lag of the next start.
            intended = released.elapsed();
        }
        match load.model {
            LoadModel::Loop { .. } if intended < load.model.duration() => {}
            _ => return Some(()),
        }
    }
}
