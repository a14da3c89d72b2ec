//! How long a connection has been without a request, so that nobody holds one for nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The requests under way on one connection. Cloned between the connection and its requests.
#[derive(Debug, Clone)]
pub(super) struct Idle(Arc<State>);

#[derive(Debug)]
struct State {
    requests: AtomicUsize,
    since: Mutex<Instant>,
}

impl State {
    fn since(&self) -> MutexGuard<'_, Instant> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// Of a connection that has just been made.
    pub(super) fn new() -> Self {
        Self(Arc::new(State { requests: AtomicUsize::new(0), since: Mutex::new(Instant::now()) }))
    }

    /// A request is under way until the guard is dropped.
    pub(super) fn request(&self) -> Request {
        self.0.requests.fetch_add(1, Ordering::AcqRel);
        Request(self.0.clone())
    }

    /// Since when there has been none.
    pub(super) fn since(&self) -> Instant {
        if self.0.requests.load(Ordering::Acquire) > 0 { Instant::now() } else { *self.0.since() }
    }
}

/// Lives as long as a request is under way.
#[derive(Debug)]
pub(super) struct Request(Arc<State>);

impl Drop for Request {
    fn drop(&mut self) {
        *self.0.since() = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
