//! A run's life: admission, its session's queue, the bot's call, deadline and abort, and its end.
//!
//! What is answered is on disk before the answer; which of two ends counts is the store's word alone.

mod admit;
mod conversation;
mod deadline;
mod drain;
mod live;
mod log;
mod queue;
mod serve;
mod slots;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub(crate) use self::admit::store_refusal;
pub use self::admit::{AdmittedRun, Attachable};
pub use self::live::LiveRun;
pub use self::log::{EventLog, LogBounds};
use self::queue::Sessions;
use self::slots::Slots;
pub use self::stream::EventStream;
use crate::bot::BotHost;
use crate::network::OutboxHandle;
use crate::store::Store;

/// How runs are treated.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// RUNNING runs at once.
    pub max_running: usize,
    /// PENDING runs a session.
    pub pending_session: usize,
    /// PENDING runs in all.
    pub pending_total: usize,
    /// How long a run goes on when nobody reads its stream.
    pub detach_grace: Duration,
    /// How long an ended run's events are kept in memory.
    pub keep_ended: Duration,
    /// What a run's event log keeps.
    pub log: LogBounds,
}

/// All runs of this process. Cheap to clone.
#[derive(Clone)]
pub struct Runs(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    bots: Arc<BotHost>,
    outbox: OutboxHandle,
    options: RunOptions,
    /// Runs in memory, by id.
    live: Mutex<HashMap<String, Arc<LiveRun>>>,
    sessions: Sessions,
    slots: Slots,
    /// How many runs are RUNNING.
    running: AtomicUsize,
    /// Bytes of events of ended runs that are kept.
    ended_bytes: AtomicUsize,
    /// Set when workers are to take nothing new.
    stopping: AtomicBool,
    /// Woken whenever a session's worker has ended.
    idle: Notify,
}

impl Runs {
    /// An empty set of runs on a store; [`Runs::recover`] fills it with what an earlier process left.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, bots: Arc<BotHost>, outbox: OutboxHandle, options: RunOptions) -> Self {
        Self(Arc::new(Inner {
            store,
            bots,
            outbox,
            options,
            live: Mutex::default(),
            sessions: Sessions::default(),
            slots: Slots::new(options.max_running),
            running: AtomicUsize::new(0),
            ended_bytes: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            idle: Notify::new(),
        }))
    }

    /// The store behind.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// How runs are treated.
    #[must_use]
    pub fn options(&self) -> &RunOptions {
        &self.0.options
    }

    /// How many runs are RUNNING.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::Acquire)
    }

    /// A run in memory.
    #[must_use]
    pub fn live(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.0.live().get(id).cloned()
    }
}

impl Inner {
    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
