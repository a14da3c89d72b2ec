//! The tests' own tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crash;
mod damage;
mod laws;
mod model;
mod opening;
mod ops;
mod queue;
mod races;
mod random;
mod runs;
mod sessions;
mod upkeep;

use std::future::Future;
use std::path::Path;

use super::*;
use crate::wire::message::RawMessage;
use crate::wire::{Channel, Fingerprint, Outcome};

/// The tests' futures wait for one thread only; no runtime is needed.
fn wait<T>(future: impl Future<Output = Result<T, StoreError>>) -> T {
    try_wait(future).unwrap()
}

fn try_wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn open(dir: &Path) -> SledStore {
    SledStore::open(OpenOptions { dir: dir.to_owned(), cache_bytes: 8 << 20 }).unwrap()
}

fn temp() -> (tempfile::TempDir, SledStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (dir, store)
}

fn key(bot: &str, session: &str) -> SessionKey {
    SessionKey::new(BotRef::parse(bot).unwrap(), session)
}

fn message(text: &str) -> RawMessage {
    let json = serde_json::json!({"role": "user", "content": [{"type": "text", "text": text}]}).to_string();
    RawMessage { message: serde_json::value::RawValue::from_string(json).unwrap(), from: None, attachments: None }
}

fn admission(id: &str, session: &SessionKey, now: u64) -> Admission {
    Admission {
        id: id.into(),
        key: session.clone(),
        group: "g".into(),
        tags: vec!["tag".into()],
        extensions: serde_json::value::RawValue::from_string(r#"{"n": 1.50}"#.into()).ok(),
        channel: Channel::CallbackV1,
        fingerprint: Fingerprint([1; 32]),
        message: message(id),
        now,
        deadline: now + 10_000,
        max_pending_session: 100,
        max_pending_total: 1000,
    }
}

fn injection(id: &str, session: &SessionKey, now: u64, owe_hook: bool) -> Injection {
    Injection {
        id: id.into(),
        key: session.clone(),
        fingerprint: Fingerprint([1; 32]),
        message: message(id),
        group: "g".into(),
        tags: vec!["t".into()],
        extensions: serde_json::value::RawValue::from_string(r#"{"e":1}"#.into()).ok(),
        now,
        owe_hook,
    }
}

fn abort(id: &str, session: &SessionKey, now: u64) -> Abort {
    Abort {
        id: id.into(),
        fingerprint: Fingerprint([1; 32]),
        key: session.clone(),
        reason: "user_cancelled".into(),
        now,
    }
}

fn completed(text: &str) -> Outcome {
    Outcome::Completed { text: text.into(), stop_reason: None }
}

fn finish(id: &str, outcome: Outcome, now: u64) -> Finish {
    Finish { run_id: id.into(), outcome, writes: Vec::new(), bot_version: None, now }
}

fn set(name: &str, value: &[u8]) -> StateWrite {
    StateWrite { key: name.into(), value: Some(value.into()) }
}

/// All of a session.
fn all(session: &SessionKey) -> HistoryQuery {
    HistoryQuery { key: session.clone(), before: None, after: None, limit: 1_000_000, max_bytes: usize::MAX }
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

/// A run that was admitted, started and has ended with this reply.
fn ended(store: &SledStore, id: &str, session: &SessionKey, now: u64, text: &str) {
    assert!(matches!(wait(store.admit(admission(id, session, now))), Admitted::New(_)));
    assert!(matches!(wait(store.start(id, now)), Start::Started { .. }));
    assert!(matches!(wait(store.finish(finish(id, completed(text), now))), Finished::Won(_)));
}
