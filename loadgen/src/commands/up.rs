//! The `up` command: starts the lab without a load, for use by hand.

mod env_file;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use program::{Epilogue, Interrupt, Progress};
use stats::figures::things;

use self::env_file::{BEGINNING, EnvFile};
use crate::commands::before;
use crate::config::service::{ServiceFlags, ServicePlan};
use crate::config::settings::UpSettings;
use crate::config::values::{GoodsNo, Port, Sessions, Stock, Users, one_program, parse_time, program_parser};
use crate::error::{Error, Exit};
use crate::lab::servers::RedisNeed;
use crate::lab::service::Service;
use crate::lab::source::{Program, ServiceSettings};
use crate::lab::stack::Stack;
use crate::lab::strategy::{Mechanism, Strategy};
use crate::output::Output;
use crate::progress::starting;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "FILE", value_parser = program_parser(), help_heading = "Service")]
    demo_service: Vec<Program>,
    #[command(flatten, next_help_heading = "Service")]
    service: ServiceFlags,
    /// Port of the first instance; the others take the next ones [default: any free ports]
    #[arg(long, value_name = "N", help_heading = "Service")]
    port: Option<Port>,
    /// File to write the addresses into, once everything runs, for another shell to read. It is removed at the end
    #[arg(long, value_name = "FILE")]
    env: Option<PathBuf>,
    /// Purchases that an instance works on at once [default: 2048]
    #[arg(long, value_name = "N", help_heading = "Load")]
    users: Option<Users>,
    /// Units on sale of each SKU
    #[arg(long, value_name = "N", default_value = "100", help_heading = "Load")]
    stock: Stock,
    /// First SKU on sale; each strategy gets one, in the order of `loadgen strategies`
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    goods_no: GoodsNo,
    /// Time that the service lets a user wait for the lock
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time, help_heading = "Load")]
    lock_wait: Duration,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("starts three instances on any free ports", "loadgen up"),
            ("lets another shell find them by `. ./lab.env`", "loadgen up --env lab.env"),
            (
                "starts one instance for 1500 JMeter threads",
                "loadgen up --instances 1 --port 8080 --lock-wait 60s --zk-sessions 1500",
            ),
        ])
        .environment(&[
            ("DATABASE_URL", "Postgres server to use [default: a throwaway one]"),
            ("ZOOKEEPER_CONNECT", "ZooKeeper servers to use [default: a throwaway one]"),
            ("REDIS_URL", "Redis server to use [default: a throwaway one, or none if Redis is not installed]"),
        ])
        .note(super::TIME)
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, " before everything ran"),
        ])
}

/// ZooKeeper sessions of an instance: enough for a handful of waiters.
const ZK_SESSIONS: u32 = 32;

impl UpArgs {
    /// Fills in the defaults.
    pub(crate) fn resolve(self) -> Result<UpSettings, Error> {
        let zk_sessions = self.service.zk_sessions.map_or(ZK_SESSIONS, Sessions::get);
        let service = ServicePlan::of(self.service)?.start(self.users.map_or(1, Users::get), self.lock_wait);
        let port = self.port.map(Port::get);
        if let Some(port) = port
            && port.checked_add(service.instances - 1).is_none()
        {
            let instances = service.instances;
            return Err(Error::Usage(format!("--port {port} leaves no room for {instances} instances below 65536")));
        }
        Ok(UpSettings {
            service: ServiceSettings { zk_sessions, port, programs: one_program(self.demo_service, "up")?, ..service },
            goods_no: self.goods_no.get(),
            stock: self.stock.get(),
            env: self.env,
        })
    }
}

/// The strategy whose SKU the instructions use as their example, if the service offers it.
const EXAMPLE: &str = "zk-mutex";

/// A SKU on sale, and the strategy that sells it.
struct Offer {
    goods_no: i64,
    strategy: String,
}

/// Starts everything, prints the addresses, and stops everything at an interrupt.
pub(crate) async fn up(settings: &UpSettings, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let mut env_file = settings.env.as_deref().map(EnvFile::prepare).transpose()?;
    let mut strategies = interrupt.or(before::offered(&settings.service)).await?;
    let redis = match RedisNeed::of(&strategies) {
        RedisNeed::Chosen => RedisNeed::IfInstalled,
        need => need,
    };
    let progress = Progress::new(false);
    progress.stage(&starting(&settings.service));
    let stack = interrupt.or(Stack::start(&settings.service, redis)).await;
    progress.finish();
    let stack = stack?;
    if stack.redis_url().is_none() {
        strategies.retain(|strategy| strategy.mechanism != Mechanism::Redis);
    }
    let offers = match interrupt.or(lay_out(&stack.first().service, strategies, settings)).await {
        Ok(offers) => offers,
        Err(error) => {
            let _ = stack.stop().await;
            return Err(error);
        }
    };
    let deployment = stack.first();
    let text = instructions(
        &Addresses {
            services: deployment.service.urls(),
            database_url: &deployment.database_url,
            zookeeper_connect: &deployment.zookeeper_connect,
            redis_url: stack.redis_url(),
            admin_token: &deployment.admin_token,
            program: &std::env::args().next().unwrap_or_else(|| "loadgen".to_owned()),
        },
        &offers,
        settings.stock,
    );
    // The file comes first, so that it exists when a reader has seen the text.
    let written = env_file.as_mut().map_or(Ok(()), |file| file.write(&text));
    let printed = written.and_then(|()| output.print(&text));
    if printed.is_ok() {
        interrupt.raised().await;
    }
    drop(env_file);
    let stopped = stack.stop().await;
    printed?;
    stopped?;
    Ok(Exit::Passed.into())
}

/// Puts one SKU on sale for each strategy, in the service's order.
async fn lay_out(service: &Service, strategies: Vec<Strategy>, settings: &UpSettings) -> Result<Vec<Offer>, Error> {
    let mut offers = Vec::with_capacity(strategies.len());
    for (goods_no, strategy) in (settings.goods_no..).zip(strategies) {
        service.reset(goods_no, settings.stock, None, &strategy).await?;
        offers.push(Offer { goods_no, strategy: strategy.name });
    }
    Ok(offers)
}

/// The addresses of everything that runs.
struct Addresses<'a> {
    services: &'a [String],
    database_url: &'a str,
    zookeeper_connect: &'a str,
    redis_url: Option<&'a str>,
    admin_token: &'a str,
    /// This program, as it was called.
    program: &'a str,
}

/// Lines to paste into a shell: variables first, then commands that use them, as comments.
fn instructions(addresses: &Addresses<'_>, offers: &[Offer], stock: u32) -> String {
    let Addresses { services, database_url, zookeeper_connect, redis_url, admin_token, program } = addresses;
    let redis = redis_url.map_or_else(
        || "# without Redis and its strategies: install redis-server, or set REDIS_URL".to_owned(),
        |url| format!("export REDIS_URL='{url}'"),
    );
    let first = services.first().map_or("", String::as_str);
    let (host, port) = first.trim_start_matches("http://").rsplit_once(':').unwrap_or((first, "80"));
    let all = services.join(",");
    let units = things(stock, "unit");
    let mut text = format!(
        "\
{BEGINNING}{units}; Ctrl-C stops everything.
export SECKILL_URLS='{all}'
export DATABASE_URL='{database_url}'
export ZOOKEEPER_CONNECT='{zookeeper_connect}'
{redis}
export ADMIN_TOKEN='{admin_token}'

# the page of the interface, for a browser
#   {first}/docs/
# buy one unit by the strategy that sells the SKU
"
    );
    for Offer { goods_no, strategy } in offers {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "#   curl -s {first}/goods-stock/{goods_no}  # {strategy}");
    }
    let example = offers.iter().find(|offer| offer.strategy == EXAMPLE).or(offers.first());
    let (Some(Offer { goods_no, strategy }), Some(last)) = (example, offers.last()) else { return text };
    // A comparison puts its SKU on sale for one strategy after another, so it gets a SKU of its own.
    let free = last.goods_no + 1;
    let _ = write!(
        text,
        "\
# the stock, the strategies, the counters
#   curl -s {first}/goods/{goods_no}; curl -s {first}/strategies; curl -s {first}/metrics
# put {units} of SKU {goods_no} on sale again; the body names the strategy that sells them
#   curl -s -X PUT -H \"Authorization: Bearer $ADMIN_TOKEN\" -H 'Content-Type: application/json' \\
#     -d '{{\"stock\":{stock},\"strategy\":\"{strategy}\"}}' {first}/admin/goods/{goods_no}
# load it
#   wrk -t2 -c64 -d5s '{first}/goods-stock/{goods_no}'
#   jmeter -n -t jmeter/seckill.jmx -l results.jtl -Jhost={host} -Jport={port} -JgoodsNo={goods_no}
#   {program} compare --target \"$SECKILL_URLS\" --goods-no {free}
# what was sold
#   psql \"$DATABASE_URL\" -c 'select goods_no, sale, strategy, sum(quantity) from orders join order_lines using (order_id) group by 1, 2, 3 order by 1, 2'
"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_can_be_pasted_into_a_shell() {
        let names = ["unguarded", "zk-mutex", "pg-conditional"];
        let offers: Vec<Offer> =
            (1..).zip(names).map(|(goods_no, name)| Offer { goods_no, strategy: name.to_owned() }).collect();
        let addresses = Addresses {
            services: &["http://127.0.0.1:8080".to_owned(), "http://127.0.0.1:8081".to_owned()],
            database_url: "postgres://postgres@127.0.0.1:5432/seckill",
            zookeeper_connect: "127.0.0.1:2181",
            redis_url: Some("redis://127.0.0.1:6379/"),
            admin_token: "secret",
            program: "./target/release/loadgen",
        };
        let text = instructions(&addresses, &offers, 100);
        for line in text.lines() {
            assert!(line.is_empty() || line.starts_with('#') || line.starts_with("export "), "{line}");
        }
        insta::assert_snapshot!(text);
    }
}
