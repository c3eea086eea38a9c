//! Redis forgets locks and tokens that it has granted: what `redis-lock` sells twice then, and what the row refuses.

use testbed::{Redis, RedisConfig, RedisDurability, StopSignal};

use super::STRATEGIES;
use crate::lab::{Answer, Instance, Lab, PATIENT, wait_until};
use crate::program::Program;

/// Long enough to stop the process in it. Nothing else limits how long it stands still.
const STOPPED: [&str; 4] = ["--business-time", "4s", "--redis-lock-ttl", "10m"];

/// Starts a purchase and stops its process in the business time. Kills Redis, which has no durable log, and starts it again.
async fn forget_a_lock(
    lab: &Lab,
    redis: &mut Redis,
    goods_no: i64,
    strategy: &str,
) -> (Program, tokio::task::JoinHandle<Answer>) {
    let slow = Program::start(lab, StopSignal::Terminate, &[&STOPPED[..], &PATIENT].concat(), &[]).await;
    slow.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    let holder = slow.spawn_buy(goods_no, strategy);
    let is_inside = "select exists (select from pg_stat_activity where datname = current_database()
                         and state = 'idle in transaction' and starts_with(query, 'select sale, on_hand'))
                     or exists (select from goods where goods_no = $1 and fence > 0)";
    let mut connection = lab.connect().await;
    wait_until(async || sqlx::query_scalar(is_inside).bind(goods_no).fetch_one(&mut connection).await.unwrap()).await;
    slow.pause().await;
    assert!(!holder.is_finished());
    redis.kill().await.unwrap();
    redis.restart().await.unwrap();
    (slow, holder)
}

async fn without_log() -> (Redis, Lab) {
    let redis =
        Redis::start(RedisConfig { durability: RedisDurability::None, ..RedisConfig::default() }).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    (redis, lab)
}

/// The hazard of `redis-lock`: both buyers have read 5 units, and both write 4.
#[tokio::test]
async fn a_lock_that_redis_forgets_lets_two_buyers_have_one_unit() {
    let (mut redis, lab) = without_log().await;
    let quick = lab.start(&[]).await;
    let (slow, holder) = forget_a_lock(&lab, &mut redis, 1, "redis-lock").await;
    quick.until_ready().await;
    quick.buy(1, "redis-lock").await.assert_ok();
    slow.go_on();
    holder.await.unwrap().assert_ok();
    assert_eq!((lab.on_hand(1).await, lab.units_ordered(1, 1).await), (4, 2), "one unit was sold twice");
}

/// Goal: the row refuses a holder whose lock Redis has forgotten. Method: as above. The counter has begun again, so the next holder
/// has the same token, and only the identity of the hold tells them apart.
// S14
#[tokio::test]
async fn a_fence_refuses_the_holder_of_a_lock_that_redis_forgot() {
    let (mut redis, lab) = without_log().await;
    let quick = lab.start(&[]).await;
    let (slow, holder) = forget_a_lock(&lab, &mut redis, 1, "redis-lock-fenced").await;
    quick.until_ready().await;
    let same_token = quick.buy(1, "redis-lock-fenced").await;
    same_token.assert_problem(503, "fenced");
    let later_token = quick.buy(1, "redis-lock-fenced").await;
    later_token.assert_ok();
    assert_eq!(later_token.body["token"], 2);
    slow.go_on();
    holder.await.unwrap().assert_problem(503, "fenced");
    assert_eq!(lab.assert_adds_up(1, "a lock that Redis forgot").await, 1);
}

/// Goal: after a restore of an older counter, a fenced sale stands still for as many attempts as the counter is behind, and a new sale
/// ends that at once. Method: five units are sold, two of them before the dump that is restored.
// S107
#[tokio::test]
async fn a_restored_counter_stalls_a_fenced_sale_for_the_difference() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let instance = lab.start(&[]).await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 10, "redis-lock-fenced").await.assert_ok();
        sell(&instance, goods_no, 1..=2).await;
    }
    let dump = redis.dump().await.unwrap();
    for goods_no in [1, 2] {
        sell(&instance, goods_no, 3..=5).await;
    }
    redis.restore(&dump).await.unwrap();
    instance.until_ready().await;

    for token in 3..=5 {
        instance.buy(1, "").await.assert_problem(503, "fenced");
        assert_eq!(instance.outcomes("redis-lock-fenced", "fenced").await, Some(f64::from(token - 2)));
    }
    sell(&instance, 1, 6..=7).await;
    assert_eq!(lab.assert_adds_up(1, "a restored Redis").await, 7);

    let remaining = serde_json::json!({ "stock": "remaining", "strategy": "redis-lock-fenced" });
    let next = instance.put_sale(2, &remaining).await;
    next.assert_ok();
    assert_eq!(next.body["stock_initial"], 5, "{next:?}");
    sell(&instance, 2, 3..=4).await;
    assert_eq!(lab.assert_adds_up(2, "a restored Redis").await, 2);
}

/// Sells a unit to each of some buyers, who get these tokens.
async fn sell(instance: &Instance, goods_no: i64, tokens: std::ops::RangeInclusive<i64>) {
    for token in tokens {
        let sold = instance.buy(goods_no, "").await;
        sold.assert_ok();
        assert_eq!(sold.body["token"], token, "{sold:?}");
    }
}

/// Goal: the row decides, whatever locks there are. Method: two instances have a Redis each, so their locks do not exclude each other,
/// and they get the same tokens.
// S9
#[tokio::test(flavor = "multi_thread")]
async fn instances_with_two_redis_servers_never_oversell_by_fences() {
    const STOCK: i64 = 20;
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let other = Redis::start(RedisConfig::default()).await.unwrap();
    let business = ["--business-time", "1ms"];
    let instances =
        [lab.start(&business).await, lab.start(&[&business[..], &["--redis-url", &other.url()]].concat()).await];
    instances[0].put_on_sale(1, STOCK, STRATEGIES[1]).await.assert_ok();
    let buyers = instances.iter().map(|instance| async move {
        let mut bought = 0;
        // A buyer who was refused as fenced comes again.
        loop {
            let answer = instance.buy(1, STRATEGIES[1]).await;
            match answer.status.as_u16() {
                200 => bought += 1,
                409 => return bought,
                _ => answer.assert_problem(503, "fenced"),
            }
        }
    });
    let bought: i64 = futures_util::future::join_all(buyers).await.into_iter().sum();
    assert_eq!(lab.assert_adds_up(1, "two Redis servers").await, STOCK);
    assert_eq!(bought, STOCK);
}
