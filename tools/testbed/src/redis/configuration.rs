//! The configuration of a Redis server, and the files in its folder.

/// The server's own configuration.
pub(super) const CONFIGURATION: &str = "redis.conf";
/// The file of a dump. A server without a log loads it when it starts.
pub(super) const DUMP: &str = "dump.rdb";
/// The folder of the log.
pub(super) const LOG_FOLDER: &str = "appendonlydir";
/// The log of servers before Redis 7, which had no folder for it. A server without the folder takes it over.
pub(super) const OLD_LOG: &str = "appendonly.aof";

/// What a throwaway Redis writes to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RedisDurability {
    /// Nothing. A server that is started again is empty.
    None,
    /// A log (`appendonly`) that is forced to the disk once a second (`appendfsync everysec`). The end of the process, even by
    /// `SIGKILL`, loses nothing: the system has what was written. Only the end of the machine loses up to a second.
    EverySecond,
    /// A log that is forced to the disk before each answer (`appendfsync always`).
    #[default]
    Always,
}

/// Settings of a throwaway Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// What the server writes to its disk. It makes no snapshots by itself.
    pub durability: RedisDurability,
    /// The password of every client (`requirepass`). Without it, the server trusts everybody who can connect.
    pub password: Option<String>,
    /// The most memory for data, in bytes (`maxmemory`). Without it, there is no limit.
    pub memory_max: Option<u64>,
    /// What becomes of a write beyond `memory_max`, as Redis names it: `noeviction` refuses it, `allkeys-lru` deletes any key,
    /// `volatile-lru` one of those that expire.
    pub eviction: &'static str,
    /// Whether the server is a node of a cluster. It is alone, and serves no keys before it has hash slots.
    pub is_cluster: bool,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            durability: RedisDurability::default(),
            password: None,
            memory_max: None,
            eviction: "noeviction",
            is_cluster: false,
        }
    }
}

/// The server of which another one is a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Primary<'a> {
    pub(super) port: u16,
    pub(super) password: Option<&'a str>,
}

/// What the configuration has beside the settings of the user.
#[derive(Debug)]
pub(super) struct RedisSettings<'a> {
    pub(super) port: u16,
    /// The port for the other nodes of a cluster.
    pub(super) bus: Option<u16>,
    pub(super) primary: Option<Primary<'a>>,
}

impl RedisSettings<'_> {
    /// Returns the text of the file. The server starts in its folder, so there is no path in it.
    pub(super) fn text(&self, config: &RedisConfig) -> String {
        let mut lines = vec![
            format!("port {}", self.port),
            "bind 127.0.0.1".to_owned(),
            r#"save """#.to_owned(),
            // A server that stops waits neither for a replica, which may be frozen, nor for the beginning of its log.
            "shutdown-on-sigterm now force".to_owned(),
            // The first replica need not wait for others.
            "repl-diskless-sync-delay 0".to_owned(),
            format!("maxmemory-policy {}", config.eviction),
        ];
        let forced = match config.durability {
            RedisDurability::None => None,
            RedisDurability::EverySecond => Some("everysec"),
            RedisDurability::Always => Some("always"),
        };
        lines.push(format!("appendonly {}", if forced.is_some() { "yes" } else { "no" }));
        lines.extend(forced.map(|forced| format!("appendfsync {forced}")));
        lines.extend(config.password.as_deref().map(|password| format!("requirepass {}", quoted(password))));
        lines.extend(config.memory_max.map(|bytes| format!("maxmemory {bytes}")));
        if let Some(primary) = self.primary {
            lines.push(format!("replicaof 127.0.0.1 {}", primary.port));
            lines.extend(primary.password.map(|password| format!("masterauth {}", quoted(password))));
        }
        if let Some(bus) = self.bus {
            lines.push("cluster-enabled yes".to_owned());
            // By default it is the port and 10000, which may be no port.
            lines.push(format!("cluster-port {bus}"));
        }
        lines.join("\n") + "\n"
    }
}

/// Writes a word so that nothing in it has a meaning.
fn quoted(word: &str) -> String {
    let escaped: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{escaped}\"")
}

/// Writes a password as a part of a URL.
pub(super) fn in_url(password: &str) -> String {
    let mut text = String::new();
    for byte in password.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_have_the_letters_that_part_a_url() {
        assert_eq!(in_url("a:b@c/d?e#f%g é9"), "a%3Ab%40c%2Fd%3Fe%23f%25g%20%C3%A99");
    }
}
