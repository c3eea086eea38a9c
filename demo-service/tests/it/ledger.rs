//! The ledger of sales: each sale can be audited when it is over.

// S17

use futures_util::future::join_all;
use sqlx::Executor;

use crate::lab::{Instance, Lab, PATIENT, wait_until};

/// A row of the ledger, and what the orders of the sale took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
struct Sale {
    sale: i64,
    stock_initial: i64,
    on_hand_final: Option<i64>,
    ordered: i64,
    is_time_known: bool,
}

async fn ledger(lab: &Lab, goods_no: i64) -> Vec<Sale> {
    let sql = "select sale, stock_initial, on_hand_final, started_at is not null as is_time_known,
                   (select coalesce(sum(quantity), 0)::bigint from order_lines as line
                    where line.goods_no = sales.goods_no and line.sale = sales.sale) as ordered
               from sales where goods_no = $1 order by sale";
    sqlx::query_as(sql).bind(goods_no).fetch_all(&mut lab.connect().await).await.unwrap()
}

fn over(sale: i64, stock_initial: i64, on_hand_final: i64) -> Sale {
    let ordered = stock_initial - on_hand_final;
    Sale { sale, stock_initial, on_hand_final: Some(on_hand_final), ordered, is_time_known: true }
}

fn on(sale: i64, stock_initial: i64) -> Sale {
    Sale { sale, stock_initial, on_hand_final: None, ordered: 0, is_time_known: true }
}

#[tokio::test]
async fn the_ledger_has_what_a_sale_began_with_and_what_was_left() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 3, "").await.assert_ok();
    assert_eq!(ledger(&lab, 1).await, [on(1, 3)]);
    instance.buy(1, "zk-mutex").await.assert_ok();
    instance.put_on_sale(1, 0, "").await.assert_ok();
    assert_eq!(ledger(&lab, 1).await, [over(1, 3, 2), on(2, 0)]);
    instance.put_on_sale(1, 7, "").await.assert_ok();
    instance.put_on_sale(2, 5, "").await.assert_ok();
    assert_eq!(ledger(&lab, 1).await, [over(1, 3, 2), over(2, 0, 0), on(3, 7)]);
    assert_eq!(ledger(&lab, 2).await, [on(1, 5)]);
    let sql = "select bool_and(is_later) from (
                   select started_at > lag(started_at) over (order by sale) as is_later from sales where goods_no = 1
               ) as sale";
    let is_ordered: bool = sqlx::query_scalar(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert!(is_ordered, "later sales started later");
}

#[tokio::test(flavor = "multi_thread")]
async fn sales_that_are_started_at_once_start_one_after_the_other() {
    let lab = Lab::new().await;
    let instances = [lab.start(&[]).await, lab.start(&[]).await];
    // The SKU is new to the first of them, whichever that is.
    let started = (1..=24).map(|stock| instances[stock % 2].put_on_sale(1, i64::try_from(stock).unwrap(), ""));
    let mut answers = join_all(started).await;
    answers.iter().for_each(|answer| answer.assert_ok());
    answers.sort_by_key(|answer| answer.body["sale"].as_i64());
    let mut expected: Vec<_> = (1..)
        .zip(&answers)
        .map(|(sale, answer)| {
            assert_eq!(answer.body["sale"], sale);
            let stock = answer.body["stock_initial"].as_i64().unwrap();
            over(sale, stock, stock)
        })
        .collect();
    let last = expected.pop().unwrap();
    expected.push(on(24, last.stock_initial));
    assert_eq!(ledger(&lab, 1).await, expected);
    assert_eq!(instances[0].get("/goods/1").await.body, answers[23].body);
}

/// Goal: every sale that is over adds up, whatever was under way when it ended. Method: buyers of many strategies buy one
/// SKU each while its sales end under them.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_ended_under_its_buyers_adds_up() {
    let lab = Lab::new().await;
    let load = ["--business-time", "1ms..3ms", "--db-connections", "20", "--zk-sessions", "2"];
    let instance = lab.start(&[PATIENT, load].concat()).await;
    let strategies = [
        "zk-cohort-fenced",
        "zk-semaphore",
        "pg-conditional",
        "pg-row-lock",
        "pg-optimistic",
        "pg-units",
        "pg-buckets",
        "pg-reserve",
    ];
    join_all((1..).zip(strategies).map(|(goods_no, strategy)| sell_and_end(&lab, &instance, goods_no, strategy))).await;
}

async fn sell_and_end(lab: &Lab, instance: &Instance, goods_no: i64, strategy: &str) {
    const SALES: i64 = 8;
    const STOCK: i64 = 1000;
    let mut buyers = Vec::new();
    for sale in 1..=SALES {
        instance.put_on_sale(goods_no, STOCK, strategy).await.assert_ok();
        buyers.extend((0..6).map(|_| instance.spawn_buy(goods_no, strategy)));
        // Some buyers of every sale are through when it ends, others are not.
        wait_until(async || lab.units_ordered(goods_no, sale).await > 0).await;
    }
    let mut bought = 0;
    for answer in join_all(buyers).await.into_iter().map(Result::unwrap) {
        if answer.status == 200 {
            bought += 1;
        } else {
            answer.assert_problem(503, "sale-restarted");
        }
    }
    instance.put_on_sale(goods_no, 0, strategy).await.assert_ok();
    let ledger = ledger(lab, goods_no).await;
    let (over, on) = ledger.split_at(usize::try_from(SALES).unwrap());
    assert_eq!((on.len(), on[0].on_hand_final), (1, None), "{strategy}: {ledger:?}");
    for sale in over {
        assert_eq!(sale.on_hand_final, Some(STOCK - sale.ordered), "{strategy}: {ledger:?}");
    }
    assert_eq!(over.iter().map(|sale| sale.ordered).sum::<i64>(), bought, "{strategy}: {ledger:?}");
}

#[tokio::test]
async fn a_sale_that_was_started_by_hand_is_noted_when_it_ends() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    let by_hand = "update goods set sale = 9, stock_initial = 6, on_hand = 6 where goods_no = 1";
    lab.connect().await.execute(by_hand).await.unwrap();
    instance.buy(1, "pg-conditional").await.assert_ok();
    instance.put_on_sale(1, 2, "").await.assert_ok();
    let past = Sale { is_time_known: false, ..over(9, 6, 5) };
    assert_eq!(ledger(&lab, 1).await[1..], [past, on(10, 2)]);
}
