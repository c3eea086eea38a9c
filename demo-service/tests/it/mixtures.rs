//! Many strategies on one sale. The guard of the sale lets in those of one family, so nothing is oversold.

// S1

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::time::{Duration, Instant};

use demo_service::strategy::entry::{Entry, Promise};
use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::lab::{Answer, Instance, Lab, PATIENT, Shop, cart};

/// Purchases that meet.
const LOAD: [&str; 6] = ["--business-time", "0ms..2ms", "--zk-sessions", "2", "--db-connections", "12"];

async fn two_instances(lab: &Lab) -> [Instance; 2] {
    let arguments = [PATIENT, LOAD].concat();
    [lab.start(&arguments).await, lab.start(&arguments).await]
}

/// How a buyer asks.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// One unit, by `GET /goods-stock/{goods_no}` with this strategy.
    Get(&'static str),
    /// One unit and one of the SKU after it, by `POST /orders` without a strategy.
    Cart,
}

/// Two ways to buy that oversold when they met in one sale.
const PAIRS: [(Way, Way); 7] = [
    (Way::Get("zk-mutex"), Way::Cart),
    (Way::Get("pg-conditional"), Way::Get("pg-advisory")),
    (Way::Get("pg-conditional"), Way::Get("pg-optimistic")),
    (Way::Get("pg-advisory"), Way::Get("pg-row-lock")),
    (Way::Get("zk-mutex-fenced"), Way::Get("zk-multi")),
    (Way::Get("zk-mutex"), Way::Get("zk-mutex-fenced")),
    (Way::Get("pg-serializable"), Way::Get("pg-advisory")),
];

const STOCK: i64 = 40;

/// Buyers of each way.
const BUYERS: usize = 8;

impl Way {
    /// Returns the strategy of a sale for such buyers.
    fn strategy(self) -> &'static str {
        match self {
            Self::Get(strategy) => strategy,
            Self::Cart => "zk-multi",
        }
    }

    /// Buys until the sale is sold out or the guard refuses. Returns how many purchases were made.
    async fn buy_out(self, shop: &Shop, goods_no: i64, buyer: usize) -> i64 {
        let mut bought = 0;
        loop {
            let answer = match self {
                Self::Get(strategy) => shop.buy(goods_no, strategy).await,
                Self::Cart => {
                    let key = format!("{goods_no}-{buyer}-{bought}");
                    shop.post("/orders", Some(&key), &cart(&[(goods_no, 1), (goods_no + 1, 1)])).await
                }
            };
            match (answer.status.as_u16(), answer.problem()) {
                (200 | 201, _) => bought += 1,
                (409, Some("sold-out")) | (422, Some("guard-mismatch")) => return bought,
                // Nothing was written. A cart goes on under the same key.
                (503, Some("overtaken" | "sale-restarted")) => {}
                _ => panic!("{self:?}: {answer:?}"),
            }
        }
    }
}

/// Lets buyers of both ways buy a sale out, half of each on either instance.
async fn sell_out(lab: &Lab, instances: &[Instance; 2], goods_no: i64, pair: (Way, Way), context: &str) {
    let before = lab.orders().await;
    let buyers = (0..2 * BUYERS).map(|buyer| {
        let way = if buyer % 2 == 0 { pair.0 } else { pair.1 };
        way.buy_out(&instances[buyer / 2 % 2], goods_no, buyer)
    });
    let bought: i64 = join_all(buyers).await.into_iter().sum();
    assert_eq!(lab.assert_adds_up(goods_no, context).await, STOCK, "{context}: the sale is sold out");
    lab.assert_adds_up(goods_no + 1, context).await;
    // Each order was answered as sold. So no refusal had an effect.
    assert_eq!(lab.orders().await - before, bought, "{context}");
}

/// Goal: ways to buy that oversold when they met cannot any more, whichever of them guards the sale, and also if the first
/// purchase decides that. Method: eight buyers of each way buy one sale out on two instances.
#[tokio::test(flavor = "multi_thread")]
async fn two_strategies_that_oversold_together_sell_each_unit_once() {
    let lab = Lab::new().await;
    let instances = two_instances(&lab).await;
    let mut goods = (1..).step_by(2);
    for pair in PAIRS {
        for guard in [Some(pair.0), Some(pair.1), None] {
            let goods_no = goods.next().unwrap();
            for goods_no in [goods_no, goods_no + 1] {
                match guard {
                    Some(way) => instances[0].put_on_sale(goods_no, STOCK, way.strategy()).await.assert_ok(),
                    None => lab.put_on_sale_unguarded(goods_no, STOCK).await,
                }
            }
            sell_out(&lab, &instances, goods_no, pair, &format!("{pair:?} guarded by {guard:?}")).await;
        }
    }
}

/// A request of a mixture. It may be sent again.
#[derive(Debug, Clone)]
struct Request {
    path: String,
    /// The key and the body, unless it is a `GET`.
    order: Option<(String, Vec<(i64, i64)>)>,
}

impl Request {
    async fn send(&self, shop: &Shop) -> Answer {
        let Some((key, lines)) = &self.order else { return of_ticket(shop, shop.get(&self.path).await).await };
        let body = if self.path.starts_with("/orders") { cart(lines) } else { json!({ "quantity": lines[0].1 }) };
        let request = shop.request(Method::POST, &self.path).header("idempotency-key", key).json(&body);
        of_ticket(shop, Answer::of(request.send().await.unwrap()).await).await
    }

    /// Returns the units that it asks for.
    fn units(&self) -> i64 {
        self.order.as_ref().map_or(1, |(_, lines)| lines.iter().map(|(_, quantity)| quantity).sum())
    }
}

/// Returns the decision of a purchase whose answer may be a ticket.
async fn of_ticket(shop: &Shop, answer: Answer) -> Answer {
    if answer.ticket().is_some() { shop.decided_order(answer).await } else { answer }
}

/// SKUs of a round, all on sale by strategies of one family.
const SKUS: usize = 3;

/// Buyers of a round, and requests of each.
const MIXED_BUYERS: u64 = 12;
const REQUESTS: usize = 12;

/// Few enough to sell out within a round, and enough to sell until then.
const MIXED_STOCK: std::ops::Range<i64> = 10..80;

/// Returns how long each family is tried. `MIXTURE_SECONDS` in the environment sets it, for a long run.
fn mixture_time() -> Duration {
    let seconds = env::var("MIXTURE_SECONDS").map_or(1, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

/// Chooses one of these.
fn choose<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

/// One round of a mixture.
struct Round<'a> {
    lab: &'a Lab,
    instances: &'a [Instance; 2],
    family: &'a [&'static Entry],
    /// The first of its SKUs.
    first: i64,
    seed: u64,
}

/// What buyers were answered: the requests that made each order, and the orders of which the outcome is unknown.
#[derive(Default)]
struct AnsweredRequests {
    orders: BTreeMap<i64, Request>,
    unknown: BTreeSet<i64>,
}

impl Round<'_> {
    fn context(&self) -> String {
        format!("family {}, SKUs from {} on, seed {}", self.family[0].family, self.first, self.seed)
    }

    /// Makes any request of this round.
    fn request(&self, random: &mut StdRng, key: String) -> Request {
        let strategy = match random.random_range(0..3) {
            0 => "",
            1 => choose(random, self.family).name,
            _ => STRATEGIES[random.random_range(0..STRATEGIES.len())].name,
        };
        let goods_no = self.first + i64::try_from(random.random_range(0..SKUS)).unwrap();
        let quantity = random.random_range(1..=3);
        match random.random_range(0..3) {
            0 => Request { path: format!("/goods-stock/{goods_no}?strategy={strategy}"), order: None },
            1 => {
                let path = format!("/goods/{goods_no}/orders?strategy={strategy}");
                Request { path, order: Some((key, vec![(goods_no, quantity)])) }
            }
            _ => {
                let count = random.random_range(1..=SKUS);
                // Neighbours in a circle, from any of them on, so that carts cross.
                let lines = (0..count).map(|next| {
                    let offset = (usize::try_from(goods_no - self.first).unwrap() + next) % SKUS;
                    (self.first + i64::try_from(offset).unwrap(), random.random_range(1..=2))
                });
                let lines = lines.collect();
                Request { path: format!("/orders?strategy={strategy}"), order: Some((key, lines)) }
            }
        }
    }

    /// Sends requests of all kinds: under new keys, again under old keys, and twice at the same time.
    async fn buy(&self, buyer: u64) -> Vec<(Request, Answer)> {
        let mut random = StdRng::seed_from_u64(self.seed * MIXED_BUYERS + buyer);
        let mut sent: Vec<(Request, Answer)> = Vec::new();
        for number in 0..REQUESTS {
            let again = (!sent.is_empty() && random.random_bool(0.2)).then(|| random.random_range(0..sent.len()));
            let request = match again {
                Some(earlier) => sent[earlier].0.clone(),
                None => self.request(&mut random, format!("{}-{}-{buyer}-{number}", self.first, self.seed)),
            };
            let index = random.random_range(0..2_usize);
            let first = &self.instances[index];
            if random.random_bool(0.2) {
                let (one, other) = tokio::join!(request.send(first), request.send(&self.instances[1 - index]));
                sent.extend([(request.clone(), one), (request, other)]);
            } else {
                let answer = request.send(first).await;
                sent.push((request, answer));
            }
        }
        sent
    }

    /// Sorts the answers, and asserts that each is one of those that are allowed, and that a key has one order.
    fn sort(&self, sent: Vec<(Request, Answer)>) -> AnsweredRequests {
        let mut answered = AnsweredRequests::default();
        let mut keys = BTreeMap::new();
        for (request, answer) in sent {
            match (answer.status, answer.problem()) {
                (StatusCode::OK | StatusCode::CREATED, _) => {
                    let order_id = answer.body["order_id"].as_i64().unwrap();
                    if let Some((key, _)) = &request.order {
                        let first = *keys.entry(key.clone()).or_insert(order_id);
                        assert_eq!(first, order_id, "{}: two orders under {key}", self.context());
                    }
                    // Only a request under the same key has the same order.
                    let is_replay = |earlier: Request| earlier.order.is_some() && earlier.order == request.order;
                    let earlier = answered.orders.insert(order_id, request.clone());
                    assert!(earlier.is_none_or(is_replay), "{}: {request:?}: {answer:?}", self.context());
                }
                (StatusCode::CONFLICT, Some("sold-out"))
                | (StatusCode::UNPROCESSABLE_ENTITY, Some("guard-mismatch" | "one-at-a-time"))
                | (StatusCode::SERVICE_UNAVAILABLE, Some("overtaken" | "lock-timeout")) => {}
                (StatusCode::SERVICE_UNAVAILABLE, Some("outcome-unknown")) => {
                    answered.unknown.extend(answer.body["order_id"].as_i64());
                }
                _ => panic!("{}: {request:?} was answered {answer:?}", self.context()),
            }
        }
        answered
    }

    /// Compares the answers with the database: each order was answered, and each answer has its order.
    async fn compare(&self, answered: &AnsweredRequests) {
        let context = self.context();
        let sql = "select order_id, sum(quantity)::bigint, count(distinct key) from order_lines
                   left join idempotency_keys using (order_id)
                   where order_lines.goods_no between $1 and $1 + $2 group by order_id";
        let query = sqlx::query_as(sql).bind(self.first).bind(i64::try_from(SKUS).unwrap() - 1);
        let orders: Vec<(i64, i64, i64)> = query.fetch_all(&mut self.lab.connect().await).await.unwrap();
        for (order_id, units, keys) in &orders {
            match answered.orders.get(order_id) {
                Some(request) => {
                    assert_eq!(request.units(), *units, "{context}: order {order_id} of {request:?}");
                    assert_eq!(i64::from(request.order.is_some()), *keys, "{context}: order {order_id} of {request:?}");
                }
                None => assert!(answered.unknown.contains(order_id), "{context}: nobody was told of {order_id}"),
            }
        }
        let written: BTreeSet<_> = orders.iter().map(|(order_id, _, _)| *order_id).collect();
        let missing: Vec<_> = answered.orders.keys().filter(|order_id| !written.contains(order_id)).collect();
        assert!(missing.is_empty(), "{context}: {missing:?} were answered and not written");
        for goods_no in (self.first..).take(SKUS) {
            self.lab.assert_adds_up(goods_no, &context).await;
        }
    }

    /// Plays the round, and returns how many orders it made.
    async fn play(&self) -> usize {
        let mut random = StdRng::seed_from_u64(self.seed);
        for goods_no in (self.first..).take(SKUS) {
            let stock = random.random_range(MIXED_STOCK);
            let own = choose(&mut random, self.family);
            self.instances[0].put_on_sale(goods_no, stock, own.name).await.assert_ok();
        }
        let sent = join_all((0..MIXED_BUYERS).map(|buyer| self.buy(buyer))).await;
        let sent: Vec<_> = sent.into_iter().flatten().collect();
        for (_, answer) in &sent {
            self.instances[0].until_written(answer).await;
        }
        let answered = self.sort(sent);
        self.compare(&answered).await;
        answered.orders.len()
    }
}

/// Returns the families that promise not to oversell.
fn safe_families() -> Vec<Vec<&'static Entry>> {
    let is_safe = |entry: &&Entry| entry.promise >= Promise::MayPromiseWithoutOrder;
    let mut families: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in STRATEGIES.iter().filter(is_safe) {
        families.entry(entry.family).or_default().push(entry);
    }
    families.into_values().collect()
}

/// Goal: whatever buyers ask for, in whatever way and however often, no unit is sold twice and no answer is wrong. Method:
/// rounds of random requests by random strategies under random keys, for each family that promises not to oversell.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixture_of_everything_never_oversells() {
    let lab = Lab::new().await;
    let instances = two_instances(&lab).await;
    let mut seeds = 1..;
    for family in safe_families() {
        let start = Instant::now();
        let mut sold = 0;
        while start.elapsed() < mixture_time() || sold == 0 {
            let seed = seeds.next().unwrap();
            let first = i64::try_from(seed).unwrap() * 10;
            let round = Round { lab: &lab, instances: &instances, family: &family, first, seed };
            sold += round.play().await;
        }
        println!("{}: {sold} orders", family[0].family);
    }
}
