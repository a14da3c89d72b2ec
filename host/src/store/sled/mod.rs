//! The default engine: sled, owned by one thread.
//!
//! Known of sled 0.34 and met here: concurrent `flush_async` deadlocks, and reads were reported to deadlock under
//! load. So nothing but the [`thread`] touches the database. It takes operations as a group, carries them out in order,
//! writes what they wrote as one atomic batch, flushes once, and only then answers: sled writes and waits for the disk
//! at every batch, so one a group is many times faster than one an operation.
//!
//! Everything is in one tree, because a batch is atomic within a tree only; [`keys`] has the layout.

mod abort;
mod admit;
mod engine;
mod expire;
mod keys;
mod open;
mod outbox;
mod pieces;
mod records;
mod recover;
mod run;
mod session;
#[cfg(test)]
mod tests;
mod thread;
mod txn;
mod view;

use std::fmt;
use std::path::PathBuf;

pub use self::open::OpenError;
use self::thread::Queue;
use super::*;

/// How to open the store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The directory. It is made, with its parents, if it is not there.
    pub dir: PathBuf,
    /// The page cache, in bytes.
    pub cache_bytes: u64,
}

impl OpenOptions {
    /// The page cache unless told otherwise, in bytes. sled's own default is 1 GB.
    pub const CACHE_BYTES: u64 = 64 * 1024 * 1024;

    /// This directory, with the default cache.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), cache_bytes: Self::CACHE_BYTES }
    }
}

/// The store on sled. Dropping it ends the thread once the operations under way are done; [`Store::close`] also waits
/// for that, and for the directory to be free again.
pub struct SledStore {
    dir: PathBuf,
    queue: Queue,
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store, making it if there is none. Blocks while the engine reads its log.
    ///
    /// # Errors
    /// The directory cannot be used, another process has it, or what is in it cannot be read by this program.
    pub fn open(options: OpenOptions) -> Result<Self, OpenError> {
        let engine = open::engine(&options)?;
        let queue = Queue::start(engine).map_err(|e| OpenError::thread(&options.dir, &e))?;
        Ok(Self { dir: options.dir, queue })
    }
}

impl Store for SledStore {
    fn admit(&self, admission: Admission) -> StoreFuture<'_, Admitted> {
        self.queue.write(|engine| engine.admit(admission))
    }

    fn inject(&self, injection: Injection) -> StoreFuture<'_, Injected> {
        self.queue.write(|engine| engine.inject(injection))
    }

    fn start(&self, run_id: &str, now: u64) -> StoreFuture<'_, Start> {
        let id = run_id.to_owned();
        self.queue.write(move |engine| engine.start(&id, now))
    }

    fn finish(&self, finish: Finish) -> StoreFuture<'_, Finished> {
        self.queue.write(|engine| engine.finish(finish))
    }

    fn abort(&self, abort: Abort) -> StoreFuture<'_, AbortAnswer> {
        self.queue.write(move |engine| engine.abort(&abort))
    }

    fn injected(&self, key: SessionKey, at: u64) -> StoreFuture<'_, Option<Entry>> {
        self.queue.read(move |engine| engine.injected(&key, at))
    }

    fn inject_done(&self, key: SessionKey, at: u64, writes: Vec<StateWrite>) -> StoreFuture<'_, ()> {
        self.queue.write(move |engine| engine.inject_done(&key, at, writes))
    }

    fn run(&self, run_id: &str) -> StoreFuture<'_, Option<RunRecord>> {
        let id = run_id.to_owned();
        self.queue.read(move |engine| engine.run(&id))
    }

    fn history(&self, query: HistoryQuery) -> StoreFuture<'_, HistoryPage> {
        self.queue.read(move |engine| engine.history(&query))
    }

    fn context(&self, query: ContextQuery) -> StoreFuture<'_, Vec<Entry>> {
        self.queue.read(move |engine| engine.context(&query))
    }

    fn state_get(&self, key: SessionKey, name: String) -> StoreFuture<'_, Option<Vec<u8>>> {
        self.queue.read(move |engine| engine.state_get(&key, &name))
    }

    fn state_keys(&self, key: SessionKey, prefix: String) -> StoreFuture<'_, Vec<(String, u64)>> {
        self.queue.read(move |engine| engine.state_keys(&key, &prefix))
    }

    // A write, though it writes nothing: a callback must not go out when its settlement could not be kept.
    fn outbox_take(&self, now: u64, limit: usize, lease_ms: u64) -> StoreFuture<'_, OutboxBatch> {
        self.queue.write(move |engine| engine.outbox_take(now, limit, lease_ms))
    }

    fn outbox_settle(&self, run_id: &str, settlement: Settlement) -> StoreFuture<'_, ()> {
        let id = run_id.to_owned();
        self.queue.write(move |engine| engine.outbox_settle(&id, settlement))
    }

    fn recover(&self, now: u64, rerun: Vec<BotRef>) -> StoreFuture<'_, Recovery> {
        self.queue.write(move |engine| engine.recover(now, &rerun))
    }

    fn expire(&self, now: u64, retention: Retention, budget: usize) -> StoreFuture<'_, usize> {
        self.queue.write(move |engine| engine.expire(now, retention, budget))
    }

    fn artifact(&self, key: &str) -> StoreFuture<'_, Option<[u8; 32]>> {
        let key = key.to_owned();
        self.queue.read(move |engine| engine.artifact(&key))
    }

    fn put_artifact(&self, key: &str, digest: [u8; 32]) -> StoreFuture<'_, ()> {
        let key = key.to_owned();
        self.queue.write(move |engine| engine.put_artifact(&key, digest))
    }

    fn stats(&self) -> StoreFuture<'_, StoreStats> {
        self.queue.read(|engine| engine.stats())
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.queue.close()
    }
}
