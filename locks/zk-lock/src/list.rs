//! The list of the holders and waiters of a lock, and the request to its holders to give it back.

use std::fmt::Write as _;

use serde::Serialize;
use zk_recipes::{Error as LockError, Participant, ParticipantKind, Session, participants, revoke};

use crate::cli::ListSettings;
use crate::error::Error;
use crate::output;
use crate::run::Finish;
use crate::signals::Signals;

/// One contender, as it is shown.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct ListRow {
    /// From 1 on, in the order of the queue.
    position: usize,
    state: &'static str,
    kind: &'static str,
    /// In hexadecimal digits, as ZooKeeper's own tools show it.
    session: String,
    token: i64,
    node: String,
    data: String,
}

/// Prints the queue on standard output, or the holders after asking them for the lock.
pub(crate) async fn list(settings: &ListSettings, mut signals: Signals) -> Result<Finish, Error> {
    let path = &settings.path;
    let asking = async {
        let session = settings.server.connect().await?;
        let mut found = queue(&session, path).await.map_err(Error::lock("list the queue of", path))?;
        if settings.is_revoked {
            found.retain(|participant| participant.is_holder);
            for holder in &found {
                revoke(&session, &holder.path).await.map_err(Error::lock("ask for", &holder.path))?;
            }
        }
        // Nothing depends on the answer: the session owns no nodes.
        let _ = session.close().await;
        Ok(found)
    };
    let found = tokio::select! {
        found = asking => found?,
        signal = signals.next_ending() => return Ok(Finish::Signal(signal)),
    };
    let rows: Vec<ListRow> = found.iter().enumerate().map(|(index, participant)| row(index + 1, participant)).collect();
    let text = match (settings.json, rows.as_slice()) {
        (true, _) => json(&rows),
        (false, []) if settings.is_revoked => format!("nobody holds {path}\n"),
        (false, []) => format!("nobody holds {path} or waits for it\n"),
        (false, _) => table(&rows),
    };
    output::print(&text, "write the list")
}

/// Returns the holders and waiters at the path, of any recipe.
async fn queue(session: &Session, path: &str) -> Result<Vec<Participant>, LockError> {
    let found = participants(session, path).await?;
    if found.iter().any(|participant| participant.kind != ParticipantKind::Lease) {
        return Ok(found);
    }
    // Only leases, or nothing: this may be a semaphore. Reading the lease lock first means that a contender that moves on in
    // between is seen twice rather than missed.
    let queued = participants(session, &format!("{path}/locks")).await?;
    let leases = participants(session, path).await?;
    Ok(of_semaphore(queued, leases))
}

/// Returns the holders of a semaphore's leases, and then its waiters. The contender with the lease lock creates leases before
/// there is room for them. Such leases stand for it, because they show more than the lock.
fn of_semaphore(queued: Vec<Participant>, leases: Vec<Participant>) -> Vec<Participant> {
    let (mut found, mut waiting): (Vec<_>, Vec<_>) = leases.into_iter().partition(|lease| lease.is_holder);
    let has_leases = |first: &Participant| {
        let made = |lease: &Participant| lease.session == first.session && lease.token > first.token;
        found.iter().chain(&waiting).any(made)
    };
    let first = usize::from(queued.first().is_some_and(has_leases));
    waiting.extend(queued.into_iter().skip(first));
    found.extend(waiting.into_iter().map(|mut participant| {
        participant.kind = ParticipantKind::Lease;
        participant.is_holder = false;
        participant
    }));
    found
}

fn row(position: usize, participant: &Participant) -> ListRow {
    let name = participant.path.rsplit('/').next().unwrap_or_default();
    ListRow {
        position,
        state: if participant.is_holder { "holder" } else { "waiting" },
        kind: match participant.kind {
            ParticipantKind::Exclusive => "exclusive",
            ParticipantKind::Shared => "shared",
            ParticipantKind::Lease => "lease",
            _ => "other",
        },
        session: format!("{:#x}", participant.session),
        token: participant.token.czxid(),
        node: printable(name.as_bytes()),
        data: printable(&participant.data),
    }
}

/// Returns the bytes as text on one line. Escapes the backslash and what is not printable.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\'' => text.push(character),
                _ => text.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Writes one line per row, in columns.
fn table(rows: &[ListRow]) -> String {
    let width = |column: fn(&ListRow) -> usize| rows.iter().map(column).max().unwrap_or_default();
    let position = width(|row| row.position.to_string().len());
    let session = width(|row| row.session.len());
    let token = width(|row| row.token.to_string().len());
    let node = width(|row| row.node.len());
    let mut text = String::new();
    for row in rows {
        let line = format!(
            "{:position$}  {:7}  {:9}  {:session$}  {:token$}  {:node$}  {}",
            row.position, row.state, row.kind, row.session, row.token, row.node, row.data
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn json(rows: &[ListRow]) -> String {
    let text = serde_json::to_string_pretty(rows).expect("BUG: rows are plain text and numbers");
    text + "\n"
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: usize, state: &'static str, session: &str, token: i64, data: &str) -> ListRow {
        let node = format!("lock-{position:010}");
        ListRow { position, state, kind: "exclusive", session: session.to_owned(), token, node, data: data.to_owned() }
    }

    #[test]
    fn what_is_not_printable_is_escaped_and_cannot_be_mistaken() {
        for (bytes, expected) in [
            (&b"build-7:4242"[..], "build-7:4242"),
            (b"it's \"ours\"", "it's \"ours\""),
            ("käse".as_bytes(), "käse"),
            (b"a\nb\x1b[2J", "a\\nb\\u{1b}[2J"),
            (b"\xff\x00\xfe", "\\xff\\0\\xfe"),
            (b"\\xff", "\\\\xff"),
            ("\u{202e}".as_bytes(), "\\u{202e}"),
        ] {
            assert_eq!(printable(bytes), expected);
        }
    }

    #[test]
    fn a_queue_is_a_line_each_in_columns() {
        let rows = [row(1, "holder", "0x10", 7, "a:1"), row(2, "waiting", "0x100", 12, "")];
        assert_eq!(
            table(&rows),
            "1  holder   exclusive  0x10    7  lock-0000000001  a:1\n\
             2  waiting  exclusive  0x100  12  lock-0000000002\n"
        );
    }
}
