//! Both sides list one queue alike.

use zk_recipes::{Mutex, Participant, RwLock, participants};

use super::kazoo_session;
use super::rival::Rival;
use crate::support::Lab;

fn paths(queue: &[Participant]) -> Vec<&str> {
    queue.iter().map(|participant| participant.path.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_lists_a_mixed_queue_of_a_mutex_as_we_do() {
    const PATH: &str = "/locks/mutex";
    let lab = Lab::open().await;
    let session = kazoo_session(&lab).await;
    let lock = Mutex::new(&session, PATH).unwrap();
    let mut lister = Rival::curator(&lab).await;
    assert_eq!(lister.ask(&format!("participants mutex {PATH}"), "participants").await, "", "there is no such node");
    assert_eq!(lock.participants().await.unwrap(), []);

    let mut queued = [Rival::curator(&lab).await, Rival::kazoo(&lab).await, Rival::curator(&lab).await];
    let mut waiters = Vec::new();
    for (index, rival) in queued.iter_mut().enumerate() {
        rival.queue("mutex", PATH).await;
        lab.until_children(PATH, 2 * index + 1).await;
        waiters.push(lock.enqueue().await.unwrap());
    }
    queued[0].says("acquired").await;
    let ours = lock.participants().await.unwrap();
    assert_eq!(lister.ask(&format!("participants mutex {PATH}"), "participants").await, paths(&ours).join(" "));
    assert_eq!(ours, participants(&session, PATH).await.unwrap());
    let ours_alone: Vec<_> = ours.iter().skip(1).step_by(2).map(|participant| participant.path.as_str()).collect();
    assert_eq!(ours_alone, waiters.iter().map(|waiter| waiter.node_path()).collect::<Vec<_>>());
    assert_eq!(
        ours.iter().map(|participant| participant.is_holder).collect::<Vec<_>>(),
        [true, false, false, false, false, false]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_lists_a_mixed_queue_of_readers_and_writers_as_we_do() {
    const PATH: &str = "/locks/rw";
    let lab = Lab::open().await;
    let lock = RwLock::new(&kazoo_session(&lab).await, PATH).unwrap();
    let mut lister = Rival::curator(&lab).await;

    let mut rivals = Vec::new();
    let mut waiters = Vec::new();
    for (round, recipe) in ["read", "write", "read"].into_iter().enumerate() {
        let mut pair = [Rival::curator(&lab).await, Rival::kazoo(&lab).await];
        for (index, rival) in pair.iter_mut().enumerate() {
            rival.queue(recipe, PATH).await;
            lab.until_children(PATH, 4 * round + index + 1).await;
        }
        waiters.push(lock.read_lock().enqueue().await.unwrap());
        waiters.push(lock.write_lock().enqueue().await.unwrap());
        rivals.push(pair);
    }
    for rival in &mut rivals[0] {
        rival.says("acquired").await;
    }
    let reading = lister.ask(&format!("participants read {PATH}"), "participants").await;
    let writing = lister.ask(&format!("participants write {PATH}"), "participants").await;
    assert_eq!(reading, paths(&lock.read_lock().participants().await.unwrap()).join(" "));
    assert_eq!(writing, paths(&lock.write_lock().participants().await.unwrap()).join(" "));
    let ours = lock.participants().await.unwrap();
    assert_eq!(
        ours.iter().filter(|participant| participant.is_holder).count(),
        3,
        "the readers before the first writer"
    );
}
