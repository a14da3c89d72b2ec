//! One queue a session: its runs and hooks are served one after the other, in the order of their admission.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Inner;
use super::live::LiveRun;
use crate::wire::SessionKey;

/// What waits in a session.
#[derive(Debug)]
pub(super) enum Item {
    /// A run.
    Run(Arc<LiveRun>),
    /// The bot's `inject` function is owed for the message at this place.
    Hook {
        /// The place.
        at: u64,
    },
}

/// How many gates there are: sessions that share one only wait for each other's disk write.
const GATES: usize = 1024;

/// The sessions that have something to do. One is here exactly as long as a worker serves it.
pub(super) struct Sessions {
    queues: Mutex<HashMap<SessionKey, VecDeque<Item>>>,
    gates: Vec<tokio::sync::Mutex<()>>,
    hasher: std::hash::RandomState,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            queues: Mutex::default(),
            gates: (0..GATES).map(|_| tokio::sync::Mutex::default()).collect(),
            hasher: std::hash::RandomState::new(),
        }
    }
}

impl Sessions {
    /// Waits for the turn to admit something to this session.
    pub(super) async fn gate(&self, key: &SessionKey) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let index = usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % GATES;
        match self.gates.get(index) {
            Some(gate) => Some(gate.lock().await),
            None => None,
        }
    }

    /// How many sessions have something to do.
    pub(super) fn busy(&self) -> usize {
        self.lock().len()
    }

    /// Adds an item; `true` if the session now needs a worker.
    fn push(&self, key: &SessionKey, item: Item) -> bool {
        let mut queues = self.lock();
        if let Some(queue) = queues.get_mut(key) {
            queue.push_back(item);
            return false;
        }
        queues.insert(key.clone(), VecDeque::from([item]));
        true
    }

    /// The next item; `None` takes the session off, its worker ends.
    fn pop(&self, key: &SessionKey) -> Option<Item> {
        let mut queues = self.lock();
        let next = queues.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(key);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, VecDeque<Item>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Adds an item to its session's queue and sees that somebody serves it.
    pub(super) fn enqueue(self: &Arc<Self>, key: &SessionKey, item: Item) {
        if self.sessions.push(key, item) {
            let inner = self.clone();
            let key = key.clone();
            tokio::spawn(async move {
                while let Some(item) = inner.sessions.pop(&key) {
                    if inner.is_stopping() {
                        // What is not begun stays as it is on disk, for the next start.
                        continue;
                    }
                    // A task of its own: a panic in it must not leave the session without a worker.
                    let work = {
                        let (inner, key) = (inner.clone(), key.clone());
                        tokio::spawn(async move {
                            match item {
                                Item::Run(run) => inner.serve_run(&run).await,
                                Item::Hook { at } => inner.serve_hook(&key, at).await,
                            }
                        })
                    };
                    if let Err(error) = work.await {
                        tracing::error!(bot = %key.bot, session = ?key.session, %error, "serving a session met an internal error");
                    }
                }
                inner.idle.notify_waiters();
            });
        }
    }
}
