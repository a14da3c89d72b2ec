//! A run that this process knows: from its admission until some time after its end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::log::EventLog;
use crate::bot::CancelToken;
use crate::store::RunRecord;
use crate::wire::{Channel, Outcome, SessionKey};

/// A run in memory.
#[derive(Debug)]
pub struct LiveRun {
    /// The run's id.
    pub id: String,
    /// Bot and session.
    pub key: SessionKey,
    /// How the server hears of it.
    pub channel: Channel,
    /// Unix milliseconds.
    pub deadline: u64,
    /// Stops it.
    pub cancel: CancelToken,
    /// Its events.
    pub log: Arc<EventLog>,
    /// A worker has begun with it.
    started: AtomicBool,
    ended: AtomicBool,
    /// The first stream's headers are out, or its reader is gone.
    opened: AtomicBool,
    readers: AtomicUsize,
    /// Woken when the last reader leaves, and at the end.
    pub(super) attention: Notify,
}

impl LiveRun {
    /// A run as it was admitted.
    pub(super) fn new(record: &RunRecord, log: EventLog) -> Self {
        Self {
            id: record.id.clone(),
            key: record.key.clone(),
            channel: record.channel,
            deadline: record.deadline,
            cancel: CancelToken::default(),
            log: Arc::new(log),
            started: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            opened: AtomicBool::new(record.channel != Channel::Sse),
            readers: AtomicUsize::new(0),
            attention: Notify::new(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether a worker has begun with it.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    pub(super) fn set_started(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// Publishes its end, which the store has.
    pub(super) fn end(&self, outcome: &Outcome) {
        self.log.end(outcome);
        self.ended.store(true, Ordering::Release);
        self.attention.notify_waiters();
    }

    /// Waits until the server has the headers of the run's stream: the bot begins after them. Not for long: the
    /// client may have gone before its answer was made.
    pub(super) async fn until_opened(&self) {
        let opened = async {
            loop {
                let attention = self.attention.notified();
                tokio::pin!(attention);
                // Registered before the look, so that nothing in between is missed.
                attention.as_mut().enable();
                if self.opened.load(Ordering::Acquire) {
                    return;
                }
                attention.await;
            }
        };
        let _ = timeout(OPEN_WITHIN, opened).await;
    }

    fn set_opened(&self) {
        if !self.opened.swap(true, Ordering::AcqRel) {
            self.attention.notify_waiters();
        }
    }

    /// How many streams are open on it.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// One more reader, until the guard is dropped.
    pub fn read(self: &Arc<Self>) -> ReaderGuard {
        self.readers.fetch_add(1, Ordering::AcqRel);
        ReaderGuard(Arc::downgrade(self))
    }
}

/// How long the bot waits for the headers of its stream to be out.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Counts a reader of a run.
#[derive(Debug)]
pub struct ReaderGuard(Weak<LiveRun>);

impl ReaderGuard {
    /// The stream's body is being asked for: its headers are written.
    pub(super) fn set_opened(&self) {
        if let Some(run) = self.0.upgrade() {
            run.set_opened();
        }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.set_opened();
        if let Some(run) = self.0.upgrade()
            && run.readers.fetch_sub(1, Ordering::AcqRel) == 1
        {
            run.attention.notify_waiters();
        }
    }
}
