//! The `up` command: the lab without a load, to be tried by hand.

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{Progress, starting};
use crate::settings::{Source, UpSettings};
use crate::stack::Stack;

/// Starts everything, says where it is, and keeps it until the user has had enough.
///
/// # Errors
///
/// [`Error::Interrupted`] when stopped before everything runs; those of [`Stack::open`].
///
/// # Cancel safety
///
/// Everything that was started is stopped, which blocks for a moment.
pub(crate) async fn up(settings: &UpSettings, interrupt: &Interrupt, output: &mut Output) -> Result<(), Error> {
    let progress = Progress::new(false);
    progress.stage(&starting(&settings.service));
    let stack = interrupt.or(Stack::open(&Source::Start(settings.service.clone()))).await;
    progress.finish();
    let stack = stack?;
    match interrupt.or(stack.service.reset(settings.goods_no, settings.stock)).await {
        Ok(_) => {}
        Err(error) => {
            let _ = stack.stop().await;
            return Err(error);
        }
    }
    output.print(&instructions(
        &Addresses {
            services: stack.service.urls(),
            database_url: &stack.database_url,
            zookeeper_connect: &stack.zookeeper_connect,
            admin_token: &stack.admin_token,
            program: &std::env::args().next().unwrap_or_else(|| "loadgen".to_owned()),
        },
        settings,
    ));
    interrupt.raised().await;
    stack.stop().await
}

/// Where everything is.
struct Addresses<'a> {
    services: &'a [String],
    database_url: &'a str,
    zookeeper_connect: &'a str,
    admin_token: &'a str,
    /// This program, as it was called.
    program: &'a str,
}

/// Lines to paste into a shell: variables first, then what one may do with them, as comments.
fn instructions(addresses: &Addresses<'_>, settings: &UpSettings) -> String {
    let Addresses { services, database_url, zookeeper_connect, admin_token, program } = addresses;
    let (goods_no, stock) = (settings.goods_no, settings.stock);
    let first = services.first().map_or("", String::as_str);
    let (host, port) = first.trim_start_matches("http://").rsplit_once(':').unwrap_or((first, "80"));
    let all = services.join(",");
    format!(
        "\
# SKU {goods_no} holds {stock} units; Ctrl-C stops everything.
export SECKILL_URLS='{all}'
export DATABASE_URL='{database_url}'
export ZOOKEEPER_CONNECT='{zookeeper_connect}'
export ADMIN_TOKEN='{admin_token}'

# buy one unit
#   curl -s '{first}/goods-stock/{goods_no}?strategy=zk-mutex'
# the stock, the strategies, the counters
#   curl -s {first}/goods/{goods_no}; curl -s {first}/strategies; curl -s {first}/metrics
# put {stock} units on sale again
#   curl -s -X PUT -H \"Authorization: Bearer $ADMIN_TOKEN\" -H 'Content-Type: application/json' \\
#     -d '{{\"stock\":{stock}}}' {first}/admin/goods/{goods_no}
# load it
#   wrk -t2 -c64 -d5s '{first}/goods-stock/{goods_no}'
#   jmeter -n -t jmeter/seckill.jmx -l results.jtl -Jhost={host} -Jport={port} -JgoodsNo={goods_no}
#   {program} compare --target \"$SECKILL_URLS\" --goods-no {goods_no}
# what was sold
#   psql \"$DATABASE_URL\" -c 'select sale, strategy, sum(quantity) from orders join order_lines using (order_id) group by 1, 2 order by 1'
"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::ServiceSettings;

    #[test]
    fn the_instructions_can_be_pasted_into_a_shell() {
        let settings = UpSettings {
            service: ServiceSettings {
                instances: 2,
                zk_sessions: 1,
                hold: "2ms".to_owned(),
                lock_wait: Duration::from_secs(5),
                buyers_max: 2048,
                history: 65_536,
                args: Vec::new(),
                demo_service: None,
                port: Some(8080),
            },
            goods_no: 1,
            stock: 100,
        };
        let addresses = Addresses {
            services: &["http://127.0.0.1:8080".to_owned(), "http://127.0.0.1:8081".to_owned()],
            database_url: "postgres://postgres@127.0.0.1:5432/seckill",
            zookeeper_connect: "127.0.0.1:2181",
            admin_token: "secret",
            program: "./target/release/loadgen",
        };
        let text = instructions(&addresses, &settings);
        for line in text.lines() {
            assert!(line.is_empty() || line.starts_with('#') || line.starts_with("export "), "{line}");
        }
        insta::assert_snapshot!(text);
    }
}
