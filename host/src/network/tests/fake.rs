//! The outbox of a store, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::store::*;
use crate::wire::{BotRef, SessionKey};

#[derive(Default)]
pub(super) struct FakeStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) entries: BTreeMap<String, OutboxEntry>,
    /// Until when entries are leased.
    leases: BTreeMap<String, u64>,
    /// What became of entries, in order.
    pub(super) settled: Vec<(String, Settlement)>,
    /// How many takes, and how many settlements, are to fail yet.
    pub(super) failing_takes: usize,
    pub(super) failing_settlements: usize,
    /// Who was given, and how often one was given again that had not been settled.
    given: BTreeSet<String>,
    pub(super) given_again: usize,
    /// The most entries that were asked for at once.
    pub(super) largest_take: usize,
}

impl FakeStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(super) fn put(&self, entry: OutboxEntry) {
        self.lock().entries.insert(entry.run_id.clone(), entry);
    }

    /// The settlements of one run.
    pub(super) fn settled(&self, run_id: &str) -> Vec<Settlement> {
        self.lock().settled.iter().filter(|(id, _)| id == run_id).map(|(_, s)| s.clone()).collect()
    }

    pub(super) fn is_delivered(&self, run_id: &str) -> bool {
        self.settled(run_id).last() == Some(&Settlement::Delivered)
    }
}

fn failed<T>() -> Result<T, StoreError> {
    Err(StoreError::Failed("the disk is full".into()))
}

impl Store for FakeStore {
    fn outbox_take(&self, now: u64, limit: usize, lease_ms: u64) -> StoreFuture<'_, OutboxBatch> {
        Box::pin(async move {
            let mut inner = self.lock();
            inner.largest_take = inner.largest_take.max(limit);
            if inner.failing_takes > 0 {
                inner.failing_takes -= 1;
                return failed();
            }
            inner.leases.retain(|_, until| *until > now);
            let mut free: Vec<OutboxEntry> = inner
                .entries
                .values()
                .filter(|entry| !entry.dead && !inner.leases.contains_key(&entry.run_id))
                .cloned()
                .collect();
            free.sort_by_key(|entry| (entry.due_at, entry.created_at));
            let due = free.iter().take_while(|entry| entry.due_at <= now).count().min(limit);
            let next = free.split_off(due).first().map(|entry| entry.due_at);
            for entry in &free {
                inner.leases.insert(entry.run_id.clone(), now + lease_ms);
                if !inner.given.insert(entry.run_id.clone()) {
                    inner.given_again += 1;
                }
            }
            let next_due = next.into_iter().chain(inner.leases.values().copied()).min();
            Ok(OutboxBatch { entries: free, next_due })
        })
    }

    fn outbox_settle(&self, run_id: &str, settlement: Settlement) -> StoreFuture<'_, ()> {
        let run_id = run_id.to_owned();
        Box::pin(async move {
            let mut inner = self.lock();
            if inner.failing_settlements > 0 {
                inner.failing_settlements -= 1;
                return failed();
            }
            inner.leases.remove(&run_id);
            inner.given.remove(&run_id);
            inner.settled.push((run_id.clone(), settlement.clone()));
            if settlement == Settlement::Delivered {
                inner.entries.remove(&run_id);
            } else if let Some(entry) = inner.entries.get_mut(&run_id) {
                match settlement {
                    Settlement::Progress { done } => (entry.done, entry.attempts) = (done, 0),
                    Settlement::Retry { at, .. } => (entry.due_at, entry.attempts) = (at, entry.attempts + 1),
                    Settlement::Dead { .. } => entry.dead = true,
                    Settlement::Delivered => {}
                }
            }
            Ok(())
        })
    }

    fn admit(&self, _: Admission) -> StoreFuture<'_, Admitted> {
        not_the_outbox_s()
    }
    fn inject(&self, _: Injection) -> StoreFuture<'_, Injected> {
        not_the_outbox_s()
    }
    fn start(&self, _: &str, _: u64) -> StoreFuture<'_, Start> {
        not_the_outbox_s()
    }
    fn finish(&self, _: Finish) -> StoreFuture<'_, Finished> {
        not_the_outbox_s()
    }
    fn abort(&self, _: Abort) -> StoreFuture<'_, AbortAnswer> {
        not_the_outbox_s()
    }
    fn injected(&self, _: SessionKey, _: u64) -> StoreFuture<'_, Option<Entry>> {
        not_the_outbox_s()
    }
    fn inject_done(&self, _: SessionKey, _: u64, _: Vec<StateWrite>) -> StoreFuture<'_, ()> {
        not_the_outbox_s()
    }
    fn run(&self, _: &str) -> StoreFuture<'_, Option<RunRecord>> {
        not_the_outbox_s()
    }
    fn history(&self, _: HistoryQuery) -> StoreFuture<'_, HistoryPage> {
        not_the_outbox_s()
    }
    fn context(&self, _: ContextQuery) -> StoreFuture<'_, Vec<Entry>> {
        not_the_outbox_s()
    }
    fn state_get(&self, _: SessionKey, _: String) -> StoreFuture<'_, Option<Vec<u8>>> {
        not_the_outbox_s()
    }
    fn state_keys(&self, _: SessionKey, _: String) -> StoreFuture<'_, Vec<(String, u64)>> {
        not_the_outbox_s()
    }
    fn recover(&self, _: u64, _: Vec<BotRef>) -> StoreFuture<'_, Recovery> {
        not_the_outbox_s()
    }
    fn expire(&self, _: u64, _: Retention, _: usize) -> StoreFuture<'_, usize> {
        not_the_outbox_s()
    }
    fn artifact(&self, _: &str) -> StoreFuture<'_, Option<[u8; 32]>> {
        not_the_outbox_s()
    }
    fn put_artifact(&self, _: &str, _: [u8; 32]) -> StoreFuture<'_, ()> {
        not_the_outbox_s()
    }
    fn stats(&self) -> StoreFuture<'_, StoreStats> {
        not_the_outbox_s()
    }
    fn close(&self) -> StoreFuture<'_, ()> {
        not_the_outbox_s()
    }
}

/// What the outbox has no business with.
fn not_the_outbox_s<T: Send + 'static>() -> StoreFuture<'static, T> {
    Box::pin(async { Err(StoreError::Failed("this store has callbacks only".into())) })
}
