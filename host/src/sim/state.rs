//! What a simulated server knows, behind one lock that is never held across a wait.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::callback::{Callback, FaultRule, SeenEvent, Server};
use super::client::Clients;
use super::error::SimError;
use super::options::BcsOptions;
use super::run::{Delivery, Run};
use super::violation::{Notes, Violation, ViolationKind};

/// The shared part of all handles of one simulated server.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: BcsOptions,
    pub(super) clients: Clients,
    pub(super) address: SocketAddr,
    pub(super) server: Mutex<Option<Server>>,
    pub(super) callbacks_changed: Notify,
    state: Mutex<State>,
}

/// The part that changes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) webhook: Option<String>,
    pub(super) runs: HashMap<String, Run>,
    pub(super) callbacks: Vec<Callback>,
    pub(super) events: HashMap<String, SeenEvent>,
    /// The first callback of each run that ends it.
    pub(super) ends: HashMap<String, Bytes>,
    pub(super) faults: Vec<FaultRule>,
    pub(super) violations: Vec<Violation>,
}

impl Inner {
    pub(super) fn new(options: BcsOptions, address: SocketAddr) -> Self {
        Self {
            clients: Clients::new(options.sse_connections),
            options,
            address,
            server: Mutex::default(),
            callbacks_changed: Notify::new(),
            state: Mutex::default(),
        }
    }

    /// The state; a test that panicked while it held the lock has left it whole.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a broken rule.
    pub(super) fn note(&self, kind: ViolationKind, run_id: &str, detail: impl Into<String>) {
        self.state().note(kind, run_id, detail);
    }

    /// Waits for what `look` finds in the state, which is told of by `changed`.
    pub(super) async fn wait<T>(
        &self,
        within: Duration,
        changed: &Notify,
        what: impl Fn() -> String,
        look: impl Fn(&State) -> Option<T>,
    ) -> Result<T, SimError> {
        let found = async {
            loop {
                let mut next = std::pin::pin!(changed.notified());
                next.as_mut().enable();
                if let Some(found) = look(&self.state()) {
                    return found;
                }
                next.await;
            }
        };
        tokio::time::timeout(within, found).await.map_err(|_| SimError::TimedOut { what: what(), waited: within })
    }
}

impl State {
    pub(super) fn note(&mut self, kind: ViolationKind, run_id: &str, detail: impl Into<String>) {
        let run_id = (!run_id.is_empty()).then(|| run_id.to_owned());
        self.violations.push(Violation { kind, run_id, detail: detail.into() });
    }

    pub(super) fn note_all(&mut self, run_id: &str, notes: Notes) {
        for (kind, detail) in notes {
            self.note(kind, run_id, detail);
        }
    }

    /// A `chat.send` is about to go out: its run is registered before the POST.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        match self.runs.get_mut(&delivery.id) {
            Some(run) => run.deliver_again(delivery),
            None => {
                self.runs.insert(delivery.id.clone(), Run::new(delivery));
            }
        }
    }

    /// Changes a run, and notes what that shows.
    pub(super) fn with_run(&mut self, run_id: &str, change: impl FnOnce(&mut Run, &mut Notes)) {
        let mut notes = Notes::new();
        if let Some(run) = self.runs.get_mut(run_id) {
            change(run, &mut notes);
        }
        self.note_all(run_id, notes);
    }
}
