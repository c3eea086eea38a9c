//! Addresses of other instances, and what these send: perhaps by another version of the service.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Address, Batch, BatchReply, Reach, Told};
use crate::failure::{self, Failure};

/// Reads a value and writes it again. What was written is read as the same value.
fn read_back<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&read).unwrap();
    let again: T = serde_json::from_slice(&written).unwrap();
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
    Some(read)
}

// S125
#[test]
fn an_address_leads_to_one_process_at_most() {
    fuzz::any_bytes("instance-addresses", |bytes| {
        let Some(address) = read_back::<Address>(bytes) else { return };
        assert_ne!(address.reach(&address), Reach::Direct, "{address:?} leads back to its process");
        let elsewhere = Address { loopback: format!("{} of another host", address.loopback), ..address.clone() };
        assert!(address.loopback.is_empty() || address.reach(&elsewhere) == Reach::Nowhere, "{address:?}");
        for at in ["127.0.0.1:7070", "[::1]:7070", "localhost:7070"] {
            let own = Address { at: at.to_owned(), ..elsewhere.clone() };
            assert!(address.loopback.is_empty() || address.reach(&own) == Reach::Nowhere, "{at} of {address:?}");
        }
    });
}

// S125
#[test]
fn what_an_instance_sends_is_read_as_it_was_written() {
    fuzz::any_bytes("instance-batches", |bytes| {
        read_back::<Batch>(bytes);
        let Some(reply) = read_back::<BatchReply>(bytes) else { return };
        let written = serde_json::to_value(&reply.told).unwrap();
        assert_eq!(reply.told.is_decided(), written != "elsewhere");
        let Some(decision) = reply.told.decision() else { return };
        let kind = decision.as_ref().err().map(|failure: &Failure| failure.kind().slug());
        let again = serde_json::to_value(Told::of(decision)).unwrap();
        let is_known = written.pointer("/refused/kind").is_none_or(|slug| kind == slug.as_str());
        assert!(is_known || kind == Some(failure::OUTCOME_UNKNOWN.slug()), "an unknown kind has an unknown outcome");
        assert!(!is_known || again == written, "{written} is told as {again}");
    });
}
