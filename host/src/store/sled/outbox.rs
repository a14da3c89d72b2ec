//! Callbacks on their way.

use uuid::Uuid;

use super::engine::Engine;
use super::keys;
use super::txn::Txn;
use super::view::View;
use crate::store::{OutboxBatch, OutboxEntry, RunRecord, Settlement, StoreError};
use crate::wire::Outcome;
use crate::wire::callback::{self, CallbackBody};

/// How long after a run's deadline its callback is still tried, in milliseconds.
const BEYOND_DEADLINE: u64 = 3_600_000;

/// Puts the callback of an ending run in, if its channel has one.
pub(super) fn put_in(txn: &mut Txn<'_>, run: &RunRecord, outcome: &Outcome, now: u64) -> Result<(), StoreError> {
    let bodies = callback::bodies(run.channel, &run.id, outcome, now, || Uuid::new_v4().to_string());
    if bodies.is_empty() {
        return Ok(());
    }
    let entry = OutboxEntry {
        run_id: run.id.clone(),
        bot: run.key.bot.clone(),
        channel: run.channel,
        // Kept beside it: every try writes the entry again, and the bodies may be large.
        bodies: Vec::new(),
        done: 0,
        created_at: now,
        give_up_at: run.deadline.saturating_add(BEYOND_DEADLINE),
        attempts: 0,
        due_at: now,
        last_error: None,
        dead: false,
    };
    txn.write_new(keys::bodies(&run.id), &bodies)?;
    txn.put_new(due_key(&entry), run.id.clone().into_bytes());
    txn.write_new(keys::outbox(&run.id), &entry)?;
    txn.counts.outbox += 1;
    Ok(())
}

/// Takes an entry out, whatever became of it.
pub(super) fn take_out(txn: &mut Txn<'_>, entry: &OutboxEntry) {
    if entry.dead {
        txn.delete(keys::dead(&entry.run_id));
        txn.counts.dead = txn.counts.dead.saturating_sub(1);
    } else {
        txn.delete(due_key(entry));
        txn.counts.outbox = txn.counts.outbox.saturating_sub(1);
    }
    txn.delete(keys::bodies(&entry.run_id));
    txn.delete(keys::outbox(&entry.run_id));
}

fn due_key(entry: &OutboxEntry) -> Vec<u8> {
    keys::due(entry.due_at, entry.created_at, &entry.run_id)
}

fn passed_over(what: &str) {
    tracing::error!(record = ?what, "the outbox passes over a damaged record");
}

/// An entry with its bodies.
fn load(view: View<'_>, run_id: &str) -> Result<Option<OutboxEntry>, StoreError> {
    let Some(mut entry) = view.read::<OutboxEntry>(&keys::outbox(run_id))? else { return Ok(None) };
    entry.bodies = view.read::<Vec<CallbackBody>>(&keys::bodies(run_id))?.unwrap_or_default();
    Ok(Some(entry))
}

impl Engine {
    pub(super) fn outbox_take(&mut self, now: u64, limit: usize, lease_ms: u64) -> Result<OutboxBatch, StoreError> {
        self.leases.retain(|_, until| *until > now);
        let view = self.view();
        let (mut entries, mut leased) = (Vec::new(), Vec::new());
        let mut next_due = None;
        for found in view.of_kind(keys::DUE) {
            let found = found?;
            let due = keys::number(&found.key).unwrap_or(0);
            let run_id = match view.text(&found) {
                Ok(run_id) => run_id,
                Err(StoreError::Damaged(what)) => {
                    passed_over(&what);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if self.leases.contains_key(&run_id) {
                continue;
            }
            if due > now || entries.len() >= limit {
                next_due = Some(due);
                break;
            }
            match load(view, &run_id) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => passed_over(&keys::describe(&found.key)),
                Err(StoreError::Damaged(what)) => passed_over(&what),
                Err(error) => return Err(error),
            }
            // Also what was passed over: it is looked at again when the lease ends, not at every call.
            leased.push(run_id);
        }
        let until = now.saturating_add(lease_ms);
        self.leases.extend(leased.into_iter().map(|run_id| (run_id, until)));
        let next_due = next_due.into_iter().chain(self.leases.values().copied()).min();
        Ok(OutboxBatch { entries, next_due })
    }

    pub(super) fn outbox_settle(&mut self, run_id: &str, settlement: Settlement) -> Result<(), StoreError> {
        self.change(|txn| {
            let Some(mut entry) = txn.read::<OutboxEntry>(&keys::outbox(run_id))? else { return Ok(()) };
            if settlement == Settlement::Delivered {
                take_out(txn, &entry);
                return Ok(());
            }
            if entry.dead {
                return Ok(());
            }
            txn.delete(due_key(&entry));
            match settlement {
                Settlement::Delivered => {}
                Settlement::Progress { done } => {
                    entry.done = done;
                    entry.attempts = 0;
                    entry.last_error = None;
                }
                Settlement::Retry { at, error } => {
                    entry.attempts = entry.attempts.saturating_add(1);
                    entry.due_at = at;
                    entry.last_error = Some(error);
                }
                Settlement::Dead { error } => {
                    entry.attempts = entry.attempts.saturating_add(1);
                    entry.last_error = Some(error);
                    entry.dead = true;
                }
            }
            if entry.dead {
                txn.put(keys::dead(run_id), run_id.as_bytes().to_vec());
                txn.counts.dead += 1;
                txn.counts.outbox = txn.counts.outbox.saturating_sub(1);
            } else {
                txn.put(due_key(&entry), run_id.as_bytes().to_vec());
            }
            txn.write(keys::outbox(run_id), &entry)
        })?;
        self.leases.remove(run_id);
        Ok(())
    }
}
