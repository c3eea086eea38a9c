//! A counter without any atomicity of its own, shared by contenders of three languages.

// L23

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use tempfile::NamedTempFile;
use tokio::task::{JoinSet, yield_now};
use zk_recipes::{AnyLock, HandoffMutex, Mutex, RwLock};

use super::kazoo_session;
use super::rival::Rival;
use crate::support::Lab;

const MUTEX: &str = "/locks/mutex";
const READ_WRITE: &str = "/locks/rw";
/// Contenders of each language.
const CONTENDERS: usize = 3;
/// Readers of each language.
const READERS: usize = 2;
/// How often each contender takes the lock.
const ROUNDS: usize = 40;
const HALF_LEN: usize = 10;

/// One number twice, in decimal digits. A second writer tears it or loses an increment; a reader beside a writer sees it torn.
struct Counter(File);

impl Counter {
    fn create() -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        write!(file, "{:0width$}", 0, width = 2 * HALF_LEN).unwrap();
        file
    }

    fn open(path: &Path) -> Self {
        Self(File::options().read(true).write(true).open(path).unwrap())
    }

    fn read(&self) -> usize {
        let mut digits = [0; 2 * HALF_LEN];
        self.0.read_exact_at(&mut digits, 0).unwrap();
        let (first, second) = str::from_utf8(&digits).unwrap().split_at(HALF_LEN);
        assert_eq!(first, second, "torn");
        first.parse().unwrap()
    }

    fn write(&self, half: u64, value: usize) {
        let digits = format!("{value:0HALF_LEN$}");
        self.0.write_all_at(digits.as_bytes(), half * HALF_LEN as u64).unwrap();
    }
}

async fn increment(lock: AnyLock, counter: Counter) {
    for _ in 0..ROUNDS {
        let held = lock.acquire().await.unwrap();
        let next = counter.read() + 1;
        yield_now().await;
        counter.write(0, next);
        yield_now().await;
        counter.write(1, next);
        held.release().await.unwrap();
    }
}

async fn observe(lock: AnyLock, counter: Counter) {
    for _ in 0..ROUNDS {
        let held = lock.acquire().await.unwrap();
        let before = counter.read();
        yield_now().await;
        assert_eq!(counter.read(), before, "changed under a reader");
        held.release().await.unwrap();
    }
}

/// Adds a contender that does `request`.
fn spawn_rival(contenders: &mut JoinSet<()>, mut rival: Rival, request: &str, answer: &'static str) {
    let request = request.to_owned();
    contenders.spawn(async move { rival.request(&request, answer).await });
}

/// Waits for all contenders, which began at `begun`, and reads the counter.
async fn finish(name: &str, begun: Instant, contenders: JoinSet<()>, counter: &Path, increments: usize) {
    contenders.join_all().await;
    assert_eq!(Counter::open(counter).read(), increments, "no increment is lost");
    eprintln!("{name}: {increments} increments in {:.1} s", begun.elapsed().as_secs_f64());
}

// L63
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_one_mutex_of_three_languages_stays_exact() {
    let lab = Lab::open().await;
    let file = Counter::create();
    let path = file.path();
    let session = kazoo_session(&lab).await;
    // The first contender creates the parents. For kazoo's sake they must stay.
    Mutex::new(&session, MUTEX).unwrap().acquire().await.unwrap().release().await.unwrap();

    let begun = Instant::now();
    let mut contenders = JoinSet::new();
    let request = format!("increment mutex {MUTEX} {} {ROUNDS}", path.display());
    for _ in 0..CONTENDERS {
        spawn_rival(&mut contenders, Rival::curator(&lab).await, &request, "incremented");
        spawn_rival(&mut contenders, Rival::kazoo(&lab).await, &request, "incremented");
        let ours = kazoo_session(&lab).await;
        for lock in [Mutex::new(&ours, MUTEX).unwrap().into(), HandoffMutex::new(&ours, MUTEX).unwrap().into()] {
            contenders.spawn(increment(lock, Counter::open(path)));
        }
    }
    finish("mutex", begun, contenders, path, 4 * CONTENDERS * ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_kazoo_s_lock_and_ours_stays_exact() {
    let lab = Lab::open().await;
    let file = Counter::create();
    let path = file.path();

    let begun = Instant::now();
    let mut contenders = JoinSet::new();
    let request = format!("increment kazoo-lock {MUTEX} {} {ROUNDS}", path.display());
    for _ in 0..CONTENDERS {
        spawn_rival(&mut contenders, Rival::kazoo(&lab).await, &request, "incremented");
        let lock = Mutex::new(&kazoo_session(&lab).await, MUTEX).unwrap().with_kazoo();
        contenders.spawn(increment(lock.into(), Counter::open(path)));
    }
    finish("mutex with kazoo's names", begun, contenders, path, 2 * CONTENDERS * ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_a_write_lock_of_three_languages_stays_exact() {
    let lab = Lab::open().await;
    let file = Counter::create();
    let path = file.path();
    let session = kazoo_session(&lab).await;
    RwLock::new(&session, READ_WRITE).unwrap().write_lock().acquire().await.unwrap().release().await.unwrap();

    let begun = Instant::now();
    let mut contenders = JoinSet::new();
    let request = |word, recipe| format!("{word} {recipe} {READ_WRITE} {} {ROUNDS}", path.display());
    let write = request("increment", "write");
    let read = request("observe", "read");
    for _ in 0..CONTENDERS {
        spawn_rival(&mut contenders, Rival::curator(&lab).await, &write, "incremented");
        spawn_rival(&mut contenders, Rival::kazoo(&lab).await, &write, "incremented");
        let lock = RwLock::new(&kazoo_session(&lab).await, READ_WRITE).unwrap();
        contenders.spawn(increment(lock.write_lock().into(), Counter::open(path)));
    }
    for _ in 0..READERS {
        spawn_rival(&mut contenders, Rival::curator(&lab).await, &read, "observed");
        spawn_rival(&mut contenders, Rival::kazoo(&lab).await, &read, "observed");
        let lock = RwLock::new(&kazoo_session(&lab).await, READ_WRITE).unwrap();
        contenders.spawn(observe(lock.read_lock().into(), Counter::open(path)));
    }
    finish("write lock", begun, contenders, path, 3 * CONTENDERS * ROUNDS).await;
}
