//! Callbacks that wait for their acknowledgement: BCS refuses what comes before it (guide, "transport negotiation").

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The runs whose callbacks are held back.
#[derive(Debug)]
pub(super) struct Holds {
    /// How many holds a run has, and when they end by themselves: counted from the first, so that repeats of a
    /// request cannot hold its callback for ever.
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
        let until = Instant::now() + self.longest;
        self.lock().entry(run_id.to_owned()).or_insert((0, until)).0 += 1;
        AckHold { holds: self.clone(), run_id: run_id.to_owned() }
    }

    /// Whether a run's callback must wait.
    pub(super) fn is_held(&self, run_id: &str) -> bool {
        self.lock().get(run_id).is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// When the next hold ends by itself.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        self.lock().values().map(|(_, until)| *until).filter(|until| now < *until).min()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (usize, Instant)>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds one run's callback back while it lives: drop it when the acknowledgement is on the wire.
#[derive(Debug)]
pub struct AckHold {
    holds: Arc<Holds>,
    run_id: String,
}

impl Drop for AckHold {
    fn drop(&mut self) {
        let mut runs = self.holds.lock();
        if let Some((count, _)) = runs.get_mut(&self.run_id) {
            *count -= 1;
            if *count == 0 {
                runs.remove(&self.run_id);
                self.holds.released.notify_one();
            }
        }
    }
}
