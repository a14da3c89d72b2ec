//! Callbacks that wait for their acknowledgement: BCS refuses what comes before it (guide, "transport negotiation").

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The runs whose callbacks are held back.
#[derive(Debug)]
pub(super) struct Holds {
    held: Mutex<Held>,
    longest: Duration,
    /// Told when a run is released.
    pub(super) released: Notify,
}

#[derive(Debug)]
struct Held {
    /// How many acknowledgements of a run are not on the wire, and when its holds end by themselves: counted from the
    /// first, so that repeats of a request cannot hold its callback for ever.
    runs: HashMap<String, (usize, Instant)>,
    /// When the ended ones are next thrown away.
    clean_at: Instant,
}

impl Holds {
    pub(super) fn new(longest: Duration) -> Self {
        let held = Held { runs: HashMap::new(), clean_at: Instant::now() + longest };
        Self { held: Mutex::new(held), longest, released: Notify::new() }
    }

    pub(super) fn hold(self: &Arc<Self>, run_id: &str) -> AckHold {
        let now = Instant::now();
        let until = now + self.longest;
        let mut held = self.lock();
        if held.clean_at <= now {
            held.runs.retain(|_, (_, until)| now < *until);
            held.clean_at = until;
        }
        let run = held.runs.entry(run_id.to_owned()).or_insert((0, until));
        if run.1 <= now {
            *run = (0, until);
        }
        run.0 += 1;
        drop(held);
        AckHold { holds: self.clone(), run_id: run_id.to_owned() }
    }

    /// Whether a run's callback must wait.
    pub(super) fn is_held(&self, run_id: &str) -> bool {
        self.lock().runs.get(run_id).is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// When the next hold ends by itself.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        self.lock().runs.values().map(|(_, until)| *until).filter(|until| now < *until).min()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
        let held = self.holds.lock().runs.remove(&self.run_id);
        if held.is_some() {
            self.holds.released.notify_one();
        }
    }

    /// There will be no acknowledgement: the request was refused. Others of the same run may still be under way.
    pub fn withdraw(self) {
        let mut held = self.holds.lock();
        let Some((count, _)) = held.runs.get_mut(&self.run_id) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            held.runs.remove(&self.run_id);
            self.holds.released.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn holds_that_nobody_ended_do_not_pile_up() {
        let holds = Arc::new(Holds::new(Duration::ZERO));
        for n in 0..100 {
            drop(holds.hold(&n.to_string()));
        }
        assert_eq!(holds.lock().runs.len(), 1);
    }
}
