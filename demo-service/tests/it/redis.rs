//! `redis-lock` and `redis-lock-fenced`: their locks while they are held, and what becomes of them when Redis forgets them.

mod encryption;
mod hazards;
mod outages;
mod refusals;

use reqwest::StatusCode;
use testbed::{Redis, RedisConfig};
use tokio::sync::OnceCell;

use crate::lab::{Instance, Lab, PATIENT, Shop, wait_until};

/// The strategies.
const STRATEGIES: [&str; 2] = ["redis-lock", "redis-lock-fenced"];

/// The shortest time to live of a lock.
const SHORT_LIVED: [&str; 2] = ["--redis-lock-ttl", "1s"];

/// The Redis of all tests that only need one. Statics are never dropped: its guard sees the end of the process.
static SHARED_REDIS: OnceCell<Redis> = OnceCell::const_new();

/// Returns the Redis that the test shares with others. The keys of each database are apart.
pub(crate) async fn shared_redis() -> &'static Redis {
    SHARED_REDIS.get_or_try_init(|| Redis::start(RedisConfig::default())).await.unwrap()
}

impl Lab {
    /// Makes a lab on a Redis server of the test's own.
    pub(crate) async fn on_redis(redis: &Redis) -> Self {
        let mut lab = Self::new().await;
        lab.redis = redis.url();
        lab
    }

    /// Returns the key of the lock of a SKU in Redis.
    async fn redis_key(&self, family: &str, goods_no: i64) -> String {
        let sql = "select database from lock_service";
        let database: String = sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap();
        format!("seckill:{database}:{family}:{goods_no}")
    }

    pub(crate) async fn on_hand(&self, goods_no: i64) -> i64 {
        let query = sqlx::query_scalar("select on_hand from goods where goods_no = $1").bind(goods_no);
        query.fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Asserts that nothing of a SKU was sold.
    async fn assert_unsold(&self, goods_no: i64, stock: i64) {
        assert_eq!((self.on_hand(goods_no).await, self.units_ordered(goods_no, 1).await), (stock, 0), "SKU {goods_no}");
    }
}

impl Shop {
    /// Returns how many holds of a strategy were lost for a reason.
    async fn losses(&self, strategy: &str, reason: &str) -> Option<f64> {
        self.metric(&format!(r#"seckill_lock_lost_total{{strategy="{strategy}",reason="{reason}"}}"#)).await
    }

    /// Waits until all servers behind the service answer.
    pub(crate) async fn until_ready(&self) {
        wait_until(async || self.get("/readyz").await.status == StatusCode::OK).await;
    }
}

async fn value(redis: &Redis, key: &str) -> Option<String> {
    redis.command(&["GET", key]).await.unwrap()
}

/// Waits until that many milliseconds have passed by the clock of a server.
async fn wait_by_clock_of(redis: &Redis, milliseconds: u64) {
    // `PEXPIRE` counts by that clock.
    let key = format!("alarm:{}", std::process::id());
    redis.command(&["SET", &key, "", "PX", &milliseconds.to_string()]).await.unwrap();
    wait_until(async || value(redis, &key).await.is_none()).await;
}

async fn instance_with_sale(lab: &Lab, arguments: &[&str], goods_no: i64, strategy: &str) -> Instance {
    let instance = lab.start(&[&PATIENT[..], arguments].concat()).await;
    instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    instance
}

/// Goal: a hold outlives its time to live as long as its holder does. Method: the first buyer waits for the row until Redis has
/// counted three times that time. The second buyer comes meanwhile.
// S106
#[tokio::test]
async fn a_hold_is_renewed_beyond_its_time_to_live() {
    let lab = Lab::new().await;
    let redis = shared_redis().await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let instance = instance_with_sale(&lab, &SHORT_LIVED, goods_no, strategy).await;
        let row = lab.lock_row(goods_no).await;
        let first = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock().await;
        let key = lab.redis_key(strategy, goods_no).await;
        let held = value(redis, &key).await.expect("the lock is held");
        let second = instance.spawn_buy(goods_no, strategy);
        instance.wait_for_waiting(strategy, 1).await;
        wait_by_clock_of(redis, 3_000).await;
        assert_eq!(value(redis, &key).await, Some(held), "{strategy}: the first buyer has the lock");
        row.release().await;
        for buyer in [first, second] {
            buyer.await.unwrap().assert_ok();
        }
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 2);
        wait_until(async || value(redis, &key).await.is_none()).await;
    }
}

/// Goal: a lock that somebody else has is waited for until the deadline, or until the buyer leaves. Method: a value of another holder.
// S31, S34
#[tokio::test]
async fn a_lock_of_redis_is_waited_for_until_the_buyer_leaves() {
    let lab = Lab::new().await;
    let redis = shared_redis().await;
    let hurried = lab.start(&["--lock-wait", "300ms"]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let patient = instance_with_sale(&lab, &[], goods_no, strategy).await;
        let key = lab.redis_key(strategy, goods_no).await;
        redis.command(&["SET", &key, "another"]).await.unwrap();
        hurried.buy(goods_no, strategy).await.assert_problem(503, "lock-timeout");
        let buyer = patient.spawn_buy(goods_no, strategy);
        patient.wait_for_waiting(strategy, 1).await;
        buyer.abort();
        patient.wait_for_waiting(strategy, 0).await;
        assert_eq!(value(redis, &key).await.as_deref(), Some("another"));
        redis.command(&["DEL", &key]).await.unwrap();
        patient.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
    }
}

/// Goal: a hold that was lost stops its purchase, and the reason is counted. Method: while a buyer waits for the row, its key is
/// deleted, or taken over by somebody else.
// S27, S101
#[tokio::test]
async fn a_hold_whose_key_is_gone_or_taken_writes_nothing() {
    let lab = Lab::new().await;
    let redis = shared_redis().await;
    let mut goods_nos = 1..;
    for strategy in STRATEGIES {
        for reason in ["key_gone", "taken"] {
            let goods_no = goods_nos.next().unwrap();
            let instance = instance_with_sale(&lab, &SHORT_LIVED, goods_no, strategy).await;
            let row = lab.lock_row(goods_no).await;
            let buyer = instance.spawn_buy(goods_no, strategy);
            lab.wait_for_lock().await;
            let key = lab.redis_key(strategy, goods_no).await;
            let interfere = if reason == "taken" { vec!["SET", &key, "another"] } else { vec!["DEL", &key] };
            redis.command(&interfere).await.unwrap();
            buyer.await.unwrap().assert_problem(503, "hold-lost");
            row.release().await;
            lab.assert_unsold(goods_no, 5).await;
            assert_eq!(instance.losses(strategy, reason).await, Some(1.0), "{strategy}");
            let left = value(redis, &key).await;
            assert_eq!(left.as_deref(), (reason == "taken").then_some("another"), "the other holder keeps its lock");
        }
    }
}
