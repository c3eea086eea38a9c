//! The stream of promised orders, as a consumer of its group reads it, and the channels for commits of orders.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use program::chain;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Script, Value};
use tracing::warn;

use super::RedisTrouble;
use super::gate::Gates;
use crate::sale::{Cart, PromisedOrder, Purchase, Quantity};

/// The group of all consumers. A message is delivered to one of them.
pub const GROUP: &str = "writers";

/// How long a consumer that finds no message waits at the server. Shorter than the limit for a reply.
const BLOCK: Duration = Duration::from_secs(1);

/// A consumer whose messages are idle for that long counts as dead. A living one needs less for a batch, unless the database is slow.
/// Then two consumers write the same order, and the second one finds it written. So the time may be short: until it is over, the
/// buyers of a dead consumer wait.
const IDLE: Duration = Duration::from_secs(2);

/// A consumer that has asked for nothing for that long, and has nothing, is forgotten. Each start of an instance makes another one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gate/forget.lua")));

/// A promised order, as it stands in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its identity in the stream.
    pub id: String,
    /// The order.
    pub order: PromisedOrder,
    /// The name of a wait that is told when the order is settled: see [`GateRequest`](super::gate::GateRequest).
    pub waiter: Option<String>,
    /// The load of the gate that has promised it.
    pub load: String,
}

/// What a consumer has been given.
#[derive(Debug, Default)]
pub struct Delivery {
    /// The orders.
    pub orders: Vec<Message>,
    /// The identities of messages that are no orders.
    pub unreadable: Vec<String>,
    /// How many messages were deleted from the stream before anybody had settled them.
    pub lost: usize,
}

/// A consumer of a stream. It has a connection of its own, because its commands wait at the server.
pub struct Consumer {
    connection: MultiplexedConnection,
    gates: Gates,
    name: String,
}

impl Gates {
    /// Returns how many orders are in the stream: promised, and not settled.
    ///
    /// # Errors
    /// Why Redis does not tell.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn backlog(&self) -> Result<u32, RedisTrouble> {
        let mut connection = self.store.link.connection()?;
        self.ask(redis::cmd("XLEN").arg(self.key("orders")), &mut connection).await
    }

    /// Makes a consumer of the stream, and forgets those of instances that are gone. Consumers of one name are one for Redis.
    ///
    /// # Errors
    /// Why Redis does not let it in.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed.
    pub async fn consumer(&self, name: &str) -> Result<Consumer, RedisTrouble> {
        let connection = self.store.link.another().await?;
        let mut consumer = Consumer { connection, gates: self.clone(), name: name.to_owned() };
        consumer.make_group().await?;
        let mut forget = FORGET.prepare_invoke();
        forget.key(self.key("orders")).arg(GROUP).arg(millis(FORGOTTEN_AFTER));
        if let Err(error) = self.store.link.ask(forget.invoke_async::<i64>(&mut consumer.connection)).await {
            warn!(
                error = chain(&error),
                "the consumers of instances that are gone stay in the group, which costs some bytes"
            );
        }
        Ok(consumer)
    }

    /// Deletes messages that are no orders.
    ///
    /// # Errors
    /// Why Redis did not do so.
    ///
    /// # Cancel safety
    /// Dropped, they are deleted or not.
    pub async fn drop_unreadable(&self, ids: &[String]) -> Result<(), RedisTrouble> {
        let mut connection = self.store.link.connection()?;
        let stream = self.key("orders");
        let _: i64 = self.ask(redis::cmd("XACK").arg(&stream).arg(GROUP).arg(ids), &mut connection).await?;
        let _: i64 = self.ask(redis::cmd("XDEL").arg(&stream).arg(ids), &mut connection).await?;
        Ok(())
    }

    /// Tells a text to the instance that listens under that name, if it does.
    ///
    /// # Errors
    /// Why Redis did not pass it on.
    ///
    /// # Cancel safety
    /// Dropped, it is told or not.
    pub async fn tell(&self, listener: &str, text: &str) -> Result<(), RedisTrouble> {
        let mut connection = self.store.link.connection()?;
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.key(format_args!("told:{listener}"))).arg(text);
        let _: i64 = self.ask(&publish, &mut connection).await?;
        Ok(())
    }

    /// Listens under a name. The stream ends when the connection does.
    ///
    /// # Errors
    /// Why Redis does not let us.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed.
    pub async fn listen(&self, listener: &str) -> Result<impl Stream<Item = String> + Send + use<>, RedisTrouble> {
        let mut connection = self.store.link.listener().await?;
        let channel = self.key(format_args!("told:{listener}"));
        self.store.link.ask(connection.subscribe(channel)).await?;
        Ok(connection.into_on_message().filter_map(async |message| message.get_payload().ok()))
    }

    async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        connection: &mut MultiplexedConnection,
    ) -> Result<T, RedisTrouble> {
        self.store.link.ask(command.query_async(connection)).await
    }
}

impl Consumer {
    async fn make_group(&mut self) -> Result<(), RedisTrouble> {
        let mut create = redis::cmd("XGROUP");
        // From the beginning: orders may have been promised before the first consumer came.
        create.arg("CREATE").arg(self.gates.key("orders")).arg(GROUP).arg("0").arg("MKSTREAM");
        match self.gates.ask::<()>(&create, &mut self.connection).await {
            Err(trouble) if trouble.code() == Some("BUSYGROUP") => Ok(()),
            made => made,
        }
    }

    /// Waits for up to `most` messages that were never delivered. Returns none after a second without any.
    ///
    /// # Errors
    /// Why Redis does not deliver.
    ///
    /// # Cancel safety
    /// Dropped, messages may have been delivered. They are [claimed](Self::claim) later.
    pub async fn read(&mut self, most: usize) -> Result<Delivery, RedisTrouble> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(&self.name).arg("COUNT").arg(most);
        read.arg("BLOCK").arg(millis(BLOCK)).arg("STREAMS").arg(self.gates.key("orders")).arg(">");
        match self.gates.ask::<Value>(&read, &mut self.connection).await {
            // A server that has lost its data has lost the group, too.
            Err(trouble) if trouble.code() == Some("NOGROUP") => self.make_group().await.map(|()| Delivery::default()),
            Err(trouble) => Err(trouble),
            // One stream, by its name.
            Ok(reply) => Ok(Delivery::of(items(items(reply).pop().unwrap_or(Value::Nil)).pop().unwrap_or(Value::Nil))),
        }
    }

    /// Takes over up to `most` messages that were delivered and not settled for two seconds. `from` is where the last call has ended,
    /// or empty. It is empty again at the end of the stream.
    ///
    /// # Errors
    /// Why Redis does not deliver.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn claim(&mut self, most: usize, from: &mut String) -> Result<Delivery, RedisTrouble> {
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(self.gates.key("orders")).arg(GROUP).arg(&self.name).arg(millis(IDLE));
        claim.arg(if from.is_empty() { "0-0" } else { from.as_str() }).arg("COUNT").arg(most);
        let reply = match self.gates.ask::<Value>(&claim, &mut self.connection).await {
            Err(trouble) if trouble.code() == Some("NOGROUP") => {
                return self.make_group().await.map(|()| Delivery::default());
            }
            reply => reply?,
        };
        let mut parts = items(reply).into_iter();
        let next = parts.next().and_then(text).unwrap_or_default();
        *from = if next == "0-0" { String::new() } else { next };
        let mut delivery = Delivery::of(parts.next().unwrap_or(Value::Nil));
        // Those that were deleted from the stream. They are no longer pending.
        delivery.lost += parts.next().map_or(0, |deleted| items(deleted).len());
        Ok(delivery)
    }
}

impl Delivery {
    /// Reads messages, each with its identity and its fields.
    fn of(messages: Value) -> Self {
        let mut delivery = Self::default();
        for message in items(messages) {
            let mut parts = items(message).into_iter();
            let (Some(id), fields) = (parts.next().and_then(text), parts.next()) else {
                delivery.lost += 1;
                continue;
            };
            match fields.and_then(|fields| read_order(&id, items(fields))) {
                Some(message) => delivery.orders.push(message),
                None => delivery.unreadable.push(id),
            }
        }
        delivery
    }

    /// Returns whether nothing was delivered.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.unreadable.is_empty() && self.lost == 0
    }
}

/// Reads an order from the fields of a message: names and values by turns.
fn read_order(id: &str, fields: Vec<Value>) -> Option<Message> {
    let words = fields.into_iter().map(text).collect::<Option<Vec<_>>>()?;
    let fields: HashMap<&str, &str> = words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let filled = |name| fields.get(name).copied().filter(|value| !value.is_empty());
    let number = |name| filled(name)?.parse::<i64>().ok();
    let optional = |name| match filled(name) {
        Some(value) => Some(Some(value)),
        None => fields.contains_key(name).then_some(None),
    };
    let cart = Cart::of_one(filled("goods")?.parse().ok()?, Quantity::new(number("quantity")?)?);
    let key = optional("key")?.map(str::parse).transpose().ok()?;
    let buyer = optional("buyer")?.map(str::parse).transpose().ok()?;
    let order = PromisedOrder {
        order_id: number("order")?,
        sale: number("sale")?,
        purchase: Purchase { cart, key, buyer },
        remaining: number("remaining")?,
        instance: filled("instance")?.to_owned(),
    };
    let waiter = optional("waiter")?.map(str::to_owned);
    let message = Message { id: id.to_owned(), order, waiter, load: filled("load")?.to_owned() };
    Some(message).filter(|message| message.order.is_possible())
}

/// Returns the items of a list, or none.
fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        // In this form, newer protocols deliver the messages by stream.
        Value::Map(pairs) => pairs.into_iter().map(|(name, value)| Value::Array(vec![name, value])).collect(),
        _ => Vec::new(),
    }
}

fn text(value: Value) -> Option<String> {
    String::from_redis_value(value).ok()
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

#[cfg(test)]
mod fuzzed;
