//! Removing what is old.

use super::engine::Engine;
use super::keys;
use super::outbox::take_out;
use super::records::{ExpiryMark, StoredRun};
use super::txn::Txn;
use super::view::Found;
use crate::store::{OutboxEntry, Retention, StoreError};

impl Engine {
    pub(super) fn expire(&mut self, now: u64, retention: Retention, budget: usize) -> Result<usize, StoreError> {
        let Some(last) = now.checked_sub(retention.ids_ms) else { return Ok(0) };
        self.change(|txn| {
            let mut removed = 0;
            for found in txn.view.of_kind(keys::EXPIRY) {
                if removed >= budget {
                    break;
                }
                let found = found?;
                if keys::number(&found.key).is_some_and(|at| at > last) {
                    break;
                }
                match expire_one(txn, &found) {
                    Ok(true) => removed += 1,
                    Ok(false) => {}
                    Err(StoreError::Damaged(what)) => {
                        tracing::error!(record = ?what, "expiry passes over a damaged record");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(removed)
        })
    }
}

/// Removes what a mark is about; `false` if it has to stay. Reads everything before it writes anything, so that one
/// that is damaged stays as it is.
fn expire_one<'a>(txn: &mut Txn<'a>, found: &Found<'a>) -> Result<bool, StoreError> {
    let ExpiryMark { id, run } = txn.view.decode(found)?;
    if run && let Some(stored) = txn.read::<StoredRun>(&keys::run(&id))? {
        let callback: Option<OutboxEntry> = txn.read(&keys::outbox(&id))?;
        if callback.as_ref().is_some_and(|callback| !callback.dead) {
            return Ok(false);
        }
        let mut head = txn.head(&stored.run.key)?;
        head.ended = head.ended.saturating_sub(1);
        txn.put_head(&head)?;
        if let Some(callback) = callback {
            take_out(txn, &callback);
        }
    }
    txn.delete(if run { keys::run(&id) } else { keys::claim(&id) });
    txn.delete(found.key.to_vec());
    Ok(true)
}
