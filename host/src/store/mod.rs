//! What is kept: sessions, runs, ids, callbacks on their way.
//!
//! [`Store`] is a trait of whole operations, each atomic, and each on disk before its future resolves. So an engine
//! that several hosts share can take sled's place without a change elsewhere.

mod model;
mod sled;

use std::future::Future;
use std::pin::Pin;

pub use self::model::*;
pub use self::sled::{OpenError, OpenOptions, SledStore};
use crate::wire::{BotRef, SessionKey};

/// What an operation gives: its result, once it is durable.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why an operation was not carried out. Nothing of it has been kept then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The disk or the engine failed; the text says how and where.
    #[error("the data store failed: {0}")]
    Failed(String),
    /// A record cannot be read; the text says which.
    #[error("the data store holds a damaged record: {0}")]
    Damaged(String),
    /// The store is closing.
    #[error("the data store is closed")]
    Closed,
}

/// Everything that outlives the process.
///
/// Times are Unix milliseconds and come from the caller. Every future may be dropped: the operation is carried out
/// all the same.
pub trait Store: Send + Sync + 'static {
    /// Claims the id, appends the message to the session's transcript and makes the run PENDING, in one batch.
    fn admit(&self, admission: Admission) -> StoreFuture<'_, Admitted>;
    /// Claims the id and appends the message to the transcript; the bot's `inject` hook is owed until
    /// [`Store::inject_done`].
    fn inject(&self, injection: Injection) -> StoreFuture<'_, Injected>;
    /// PENDING → RUNNING, and what the bot needs to begin.
    fn start(&self, run_id: &str, now: u64) -> StoreFuture<'_, Start>;
    /// Ends a run that has not ended: the reply in the transcript, the state writes, the end, and the callback in the
    /// outbox, in one batch. Of two, the first wins and the other is told of it.
    fn finish(&self, finish: Finish) -> StoreFuture<'_, Finished>;
    /// `chat.abort`: claims its id and ends what is RUNNING in the session, callbacks included, in one batch.
    fn abort(&self, abort: Abort) -> StoreFuture<'_, AbortAnswer>;
    /// The message that an owed `inject` hook is about; `None` if it is gone.
    fn injected(&self, key: SessionKey, at: u64) -> StoreFuture<'_, Option<Entry>>;
    /// The `inject` hook of the message at `at` has been called (or given up): its state writes are kept.
    fn inject_done(&self, key: SessionKey, at: u64, writes: Vec<StateWrite>) -> StoreFuture<'_, ()>;

    /// A run's record.
    fn run(&self, run_id: &str) -> StoreFuture<'_, Option<RunRecord>>;
    /// A page of the transcript, for `chat.history`.
    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, HistoryPage>;
    /// What a bot may see of the transcript while it works on one message.
    fn context(&self, query: ContextQuery) -> StoreFuture<'_, Vec<Entry>>;
    /// A value of the bot's state in a session.
    fn state_get(&self, key: SessionKey, name: String) -> StoreFuture<'_, Option<Vec<u8>>>;
    /// The keys of the bot's state in a session that begin with `prefix`, in byte order, each with its value's length.
    fn state_keys(&self, key: SessionKey, prefix: String) -> StoreFuture<'_, Vec<(String, u64)>>;

    /// Callbacks that are due, leased until `now + lease_ms`, the oldest first, at most `limit`.
    fn outbox_take(&self, now: u64, limit: usize, lease_ms: u64) -> StoreFuture<'_, OutboxBatch>;
    /// What became of a taken callback.
    fn outbox_settle(&self, run_id: &str, settlement: Settlement) -> StoreFuture<'_, ()>;

    /// After a start: ends what was RUNNING when the last process died (or makes it PENDING again, for the bots in
    /// `rerun` and where the server will be told by callback), ends PENDING runs whose stream is gone, and lists what
    /// is to be done, in order of admission. Leases of the last process end.
    fn recover(&self, now: u64, rerun: Vec<BotRef>) -> StoreFuture<'_, Recovery>;
    /// Removes what is older than the retention says, at most `budget` records.
    fn expire(&self, now: u64, retention: Retention, budget: usize) -> StoreFuture<'_, usize>;

    /// The digest of a compiled component that this host has written, by its cache key.
    fn artifact(&self, key: &str) -> StoreFuture<'_, Option<[u8; 32]>>;
    /// Remembers such a digest.
    fn put_artifact(&self, key: &str, digest: [u8; 32]) -> StoreFuture<'_, ()>;

    /// Counts for `/readyz`, `doctor` and the console.
    fn stats(&self) -> StoreFuture<'_, StoreStats>;
    /// Flushes and ends; later operations are refused.
    fn close(&self) -> StoreFuture<'_, ()>;
}
