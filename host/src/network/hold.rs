//! Callbacks that wait for their acknowledgement: BCS refuses what comes before it (guide, "transport negotiation").

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The runs whose callbacks are held back.
#[derive(Debug)]
pub(super) struct Holds {
    /// How many acknowledgements of a run are not on the wire, and when its holds end by themselves: counted from the
    /// first, so that repeats of a request cannot hold its callback for ever.
    runs: Mutex<HashMap<String, (usize, Instant)>>,
    longest: Duration,
    /// Told when a run is released.
    pub(super) released: Notify,
}

impl Holds {
    pub(super) fn new(longest: Duration) -> Self {
        Self { runs: Mutex::default(), longest, released: Notify::new() }
    }

    pub(super) fn hold(self: &Arc<Self>, run_id: &str) -> AckHold {
        let now = Instant::now();
        let mut runs = self.lock();
        let held = runs.entry(run_id.to_owned()).or_insert((0, now + self.longest));
        if held.1 <= now {
            *held = (0, now + self.longest);
        }
        held.0 += 1;
        drop(runs);
        AckHold { holds: self.clone(), run_id: run_id.to_owned() }
    }

    /// Whether a run's callback must wait.
    pub(super) fn is_held(&self, run_id: &str) -> bool {
        self.lock().get(run_id).is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// When the next hold ends by itself.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut runs = self.lock();
        runs.retain(|_, (_, until)| now < *until);
        runs.values().map(|(_, until)| *until).min()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (usize, Instant)>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds one run's callback back until [`AckHold::sent`] says that the acknowledgement is on the wire.
///
/// Dropped without that (the client went away before its answer), it holds on for its time: an acknowledgement that
/// was never sent is one that the server will ask for again, and a callback in between would be refused.
#[derive(Debug)]
#[must_use = "the callback waits until `sent` is called"]
pub struct AckHold {
    holds: Arc<Holds>,
    run_id: String,
}

impl AckHold {
    /// The acknowledgement is on the wire: the callback may follow.
    pub fn sent(self) {
        let held = self.holds.lock().remove(&self.run_id);
        if held.is_some() {
            self.holds.released.notify_one();
        }
    }

    /// There will be no acknowledgement: the request was refused. Others of the same run may still be under way.
    pub fn withdraw(self) {
        let mut runs = self.holds.lock();
        let Some((count, _)) = runs.get_mut(&self.run_id) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            runs.remove(&self.run_id);
            self.holds.released.notify_one();
        }
    }
}
