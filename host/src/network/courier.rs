//! One callback on its way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::bcs::{BcsClient, Tried};
use super::retry::{Attempt, decide};
use crate::clock::now_ms;
use crate::store::{OutboxEntry, Settlement, Store, StoreError};

/// The pauses after the store failed: the first, doubling up to the last.
const STORE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How often a settlement is tried; after that the lease ends and the callback goes out again.
const SETTLE_TRIES: u32 = 6;

/// Carries one entry's bodies to BCS.
pub(super) struct Courier {
    pub(super) store: Arc<dyn Store>,
    pub(super) client: Arc<BcsClient>,
    pub(super) stop: watch::Receiver<Option<Duration>>,
}

impl Courier {
    /// Sends an entry's bodies in order, as far as they are taken, and keeps what became of it. When it is due again,
    /// if it is.
    pub(super) async fn deliver(self: Arc<Self>, entry: OutboxEntry) -> Option<u64> {
        let (mut done, mut before) = (entry.done, entry.attempts);
        loop {
            let Some(body) = entry.bodies.get(done) else {
                self.settle(&entry, Settlement::Delivered).await;
                return None;
            };
            let tried = self.client.post_event(&entry.bot, entry.channel, body).await;
            let attempt = Attempt {
                before,
                done,
                bodies: entry.bodies.len(),
                created_at: entry.created_at,
                give_up_at: entry.give_up_at,
                now: now_ms(),
                random: rand::random(),
            };
            let settlement = decide(&tried, &attempt);
            report(&entry, &tried, &settlement);
            self.settle(&entry, settlement.clone()).await;
            match settlement {
                Settlement::Progress { done: now_done } => (done, before) = (now_done, 0),
                Settlement::Retry { at, .. } => return Some(at),
                Settlement::Delivered | Settlement::Dead { .. } => return None,
            }
            if self.stop.borrow().is_some() {
                return None;
            }
        }
    }

    async fn settle(&self, entry: &OutboxEntry, settlement: Settlement) {
        for failures in 0..SETTLE_TRIES {
            match self.store.outbox_settle(&entry.run_id, settlement.clone()).await {
                Ok(()) | Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::error!(run = ?entry.run_id, %error, "what became of a callback could not be kept");
                    tokio::time::sleep(store_pause(failures)).await;
                }
            }
        }
    }
}

fn report(entry: &OutboxEntry, tried: &Tried, settlement: &Settlement) {
    let (bot, run) = (&entry.bot, &entry.run_id);
    match settlement {
        Settlement::Delivered if matches!(tried, Tried::Answered { status: 410, .. }) => {
            tracing::info!(%bot, ?run, "BCS had the run's end already, or no longer waits for it");
        }
        Settlement::Delivered | Settlement::Progress { .. } => tracing::debug!(%bot, ?run, "a callback is delivered"),
        Settlement::Retry { .. } if matches!(tried, Tried::Answered { status: 401 | 403, .. }) => tracing::error!(
            %bot, ?run, why = %tried,
            "a callback is refused and tried again: check `provider.bot_runtime_token` (or the bot's own), `provider.id` and `provider.auth_mode`"
        ),
        Settlement::Retry { .. } if matches!(tried, Tried::NotConfigured(_)) => {
            tracing::error!(%bot, ?run, why = %tried, "a callback cannot be sent");
        }
        Settlement::Retry { .. } => tracing::warn!(%bot, ?run, why = %tried, "a callback is tried again"),
        Settlement::Dead { error } => {
            tracing::error!(%bot, ?run, why = %error, "a callback is given up; it stays in the outbox as dead");
        }
    }
}

/// How long to leave the store alone after it failed `failures` times before.
pub(super) fn store_pause(failures: u32) -> Duration {
    let (first, last) = STORE_PAUSE;
    first.saturating_mul(1 << failures.min(10)).min(last)
}
