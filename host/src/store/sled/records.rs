//! What stands at the keys, where it is more than the model's own records.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keys;
use crate::store::{AbortAnswer, RunRecord, StoreError};
use crate::wire::{Fingerprint, SessionKey};

/// The version of all this. A change that an older program would read wrongly raises it.
pub(super) const FORMAT_VERSION: u32 = 1;

/// At `r`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredRun {
    /// Its place in the order of admission; a rerun goes back to it.
    pub(super) order: u64,
    /// The record, with no text in the outcome of a completed run.
    pub(super) run: RunRecord,
}

/// At `h`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Head {
    /// The session, since the database's key may be a digest.
    pub(super) key: SessionKey,
    /// The place of the last message.
    pub(super) last_at: u64,
    /// The RUNNING runs: by the rules of the queue never more than one.
    pub(super) running: Vec<String>,
    /// How many runs are PENDING.
    pub(super) pending: u64,
    /// How many ended runs are on record.
    pub(super) ended: u64,
}

impl Head {
    pub(super) fn new(key: &SessionKey) -> Self {
        Self { key: key.clone(), last_at: 0, running: Vec::new(), pending: 0, ended: 0 }
    }
}

/// At `c`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) method: ClaimMethod,
    pub(super) fingerprint: Fingerprint,
    /// When it was claimed.
    pub(super) at: u64,
    /// What an abort was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<AbortAnswer>,
}

/// What an id was claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClaimMethod {
    Send,
    Inject,
    Abort,
}

impl ClaimMethod {
    /// As it is called on the wire.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Send => "chat.send",
            Self::Inject => "chat.inject",
            Self::Abort => "chat.abort",
        }
    }
}

/// At `e`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExpiryMark {
    /// The id itself, since the key may have its digest.
    pub(super) id: String,
    /// Whether it is a run, or the claim of an inject or abort.
    pub(super) run: bool,
}

/// At `v`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StateName {
    pub(super) name: String,
    pub(super) len: u64,
}

/// A record as bytes.
pub(super) fn encode<T: Serialize>(key: &[u8], record: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(record)
        .map_err(|_| StoreError::Failed(format!("the {} could not be written as JSON", keys::describe(key))))
}

/// A record of bytes. serde's own message is left out: it may quote the content.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|e| damaged(key, &format!("cannot be read, at line {} column {}", e.line(), e.column())))
}

/// The error of a record that cannot be read; `what` goes on from its name.
pub(super) fn damaged(key: &[u8], what: &str) -> StoreError {
    StoreError::Damaged(format!("the {} {what}", keys::describe(key)))
}
