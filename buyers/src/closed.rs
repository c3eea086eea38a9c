//! Closed models: each of N users waits for its answer before it asks again. Goose drives them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use goose::config::GooseConfiguration;
use goose::goose::{GooseUser, Scenario, Transaction};
use goose::{GooseAttack, GooseError};
use reqwest::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::buyer::{Buyer, buy};
use super::gate::{CancelOnDrop, Gate};
use super::purchase::{Load, Purchase, client, cpu_time};
use crate::Error;
use crate::health::Dropped;
use crate::heartbeat::Heartbeat;
use crate::model::LoadModel;
use crate::sample::{Outcome, Sample};

/// Users that goose starts a second; their pace does not matter, as they meet at the rendezvous.
const USERS_PER_SECOND: &str = "100000";
/// How long goose may take for its own start and end, besides the load.
const GOOSE_GRACE: Duration = Duration::from_secs(15);
/// The pause of a looping user whose request had no answer at all, so that an instance that is gone is not asked tens of
/// thousands of times a second.
const FAILED_PAUSE: Duration = Duration::from_millis(10);

/// What the users report.
enum Report {
    /// One request.
    Sample(Sample),
    /// A user is done.
    Done,
}

/// Runs a closed model.
///
/// # Errors
///
/// Those of [`super::run`].
///
/// # Cancel safety
///
/// See [`super::run`].
pub(crate) async fn run(purchase: &Purchase) -> Result<Load, Error> {
    let gate = Gate::new(purchase.users);
    let _cancel = CancelOnDrop(Arc::clone(&gate));
    let (sender, receiver) = mpsc::unbounded_channel();
    let client = client(purchase)?;
    let attack = attack(purchase, &client, &gate, sender).map_err(|error| goose_failed(&error))?;

    let loading = async {
        connect(&client, purchase).await;
        if let Err(error) = gate.open(purchase.arrive_within).await {
            gate.cancel();
            return Err(error);
        }
        let (cpu_start, released_at, heartbeat) = (cpu_time(), SystemTime::now(), Heartbeat::start());
        let (samples, done) = collect(receiver, purchase.users).await;
        let (pulse, cpu_time) = (heartbeat.stop().await, cpu_time().saturating_sub(cpu_start));
        if done < purchase.users {
            return Err(Error::Generator(format!("only {done} of {} users reported back", purchase.users)));
        }
        Ok(Load { samples, dropped: Dropped::default(), released_at, cpu_time, pulse })
    };
    // A user that panics would make goose wait for ever; nothing here panics, and nothing here waits for ever either.
    let limit = purchase.arrive_within + purchase.model.duration() + purchase.answer_within + GOOSE_GRACE;
    let attacking = async {
        match tokio::time::timeout(limit, attack.execute()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(goose_failed(&error)),
            Err(_) => {
                gate.cancel();
                Err(Error::Generator(format!("goose did not end within {} s", limit.as_secs())))
            }
        }
    };
    let (load, attacked) = tokio::join!(loading, attacking);
    // Users that are missing may be its fault.
    attacked?;
    load
}

/// Opens a connection for every user of a load that begins with all of them, so that a burst is one of requests and not of
/// handshakes. An instance that does not answer shows in the load itself.
async fn connect(client: &Client, purchase: &Purchase) {
    if !purchase.model.begins_together() {
        return;
    }
    let probes = purchase.probes.iter().cycle().take(purchase.users).map(|url| client.get(url.clone()).send());
    let answers = tokio::time::timeout(purchase.arrive_within, JoinSet::from_iter(probes).join_all()).await;
    // Read only now: a connection whose answer has been read would serve the probes of others too.
    for answer in answers.into_iter().flatten().flatten() {
        let _ = answer.bytes().await;
    }
}

/// Takes the samples as they come. Returns them with the number of users that are done.
async fn collect(mut receiver: mpsc::UnboundedReceiver<Report>, users: usize) -> (Vec<Sample>, usize) {
    let mut samples = Vec::with_capacity(users);
    let mut done = 0;
    while done < users {
        // The senders go with goose and its users, so this ends even if users are missing.
        match receiver.recv().await {
            Some(Report::Sample(sample)) => samples.push(sample),
            Some(Report::Done) => done += 1,
            None => break,
        }
    }
    (samples, done)
}

/// One goose attack, whose only iteration is all that a user buys.
fn attack(
    purchase: &Purchase,
    client: &Client,
    gate: &Arc<Gate>,
    reports: mpsc::UnboundedSender<Report>,
) -> Result<GooseAttack, GooseError> {
    // Goose does things of its own between two transactions, so the rendezvous is in the one that buys.
    let shop = {
        let gate = Arc::clone(gate);
        let (purchase, client) = (Arc::new(purchase.clone()), client.clone());
        Transaction::new(Arc::new(move |user: &mut GooseUser| {
            let (gate, purchase, reports) = (Arc::clone(&gate), Arc::clone(&purchase), reports.clone());
            let (client, number) = (client.clone(), user.weighted_users_index);
            Box::pin(async move {
                tokio::select! {
                    () = shop(&client, &purchase, number, &gate, &reports) => {
                        // The receiver outlives the attack, unless the whole load was abandoned.
                        let _ = reports.send(Report::Done);
                    }
                    () = gate.cancelled() => {}
                }
                Ok(())
            })
        }))
    };
    let scenario = Scenario::new("flash sale").register_transaction(shop.set_name("shop"));
    let mut configuration = GooseConfiguration::default();
    // Every request names its own URL; goose merely wants a host to be set.
    configuration.host = purchase.place(0).map(|(_, url)| url.to_string());
    configuration.users = Some(purchase.users);
    configuration.increase_rate = Some(USERS_PER_SECOND.to_owned());
    configuration.iterations = Some(1);
    configuration.no_telnet = true;
    configuration.no_print_metrics = true;
    configuration.no_metrics = true;
    configuration.quiet = 1;
    // Unused, but without it goose would make a client for every user, and read all root certificates for each.
    let unused = goose::client::GooseClientBuilder::new().without_cookies();
    Ok(GooseAttack::initialize_with_config(configuration)?
        .set_client_builder_without_cookies(unused)?
        .register_scenario(scenario))
}

fn goose_failed(error: &GooseError) -> Error {
    Error::Generator(format!("goose: {error}"))
}

/// The rendezvous, and all that one user buys.
async fn shop(client: &Client, purchase: &Purchase, user: usize, gate: &Gate, reports: &mpsc::UnboundedSender<Report>) {
    gate.arrive().await;
    let Some(released) = gate.opened_at() else { return };
    let mut intended = purchase.model.first_start(user, purchase.users);
    let mut number = user;
    loop {
        if released.elapsed() < intended {
            tokio::time::sleep_until(released + intended).await;
        }
        let buyer = Buyer { user, number, released, intended, idle_since: intended };
        let Some(sample) = buy(client, purchase, buyer).await else { return };
        let failed = sample.status.is_none() && sample.outcome == Outcome::Error;
        // In a closed loop a user wants the next unit as soon as it has its answer.
        intended = sample.ended;
        number += purchase.users;
        if reports.send(Report::Sample(sample)).is_err() {
            return;
        }
        if failed {
            tokio::time::sleep(FAILED_PAUSE).await;
            intended = released.elapsed();
        }
        match purchase.model {
            LoadModel::Loop { .. } if intended < purchase.model.duration() => {}
            _ => return,
        }
    }
}
