//! `chat.abort`, by the guide's table.

use super::admit::{Known, look_up, put_claim};
use super::engine::Engine;
use super::keys;
use super::records::{Claim, ClaimMethod, Head, StoredRun};
use super::run::end;
use super::txn::Txn;
use crate::store::{Abort, AbortAnswer, StoreError};
use crate::wire::{Outcome, RunState};

impl Engine {
    pub(super) fn abort(&mut self, abort: &Abort) -> Result<AbortAnswer, StoreError> {
        self.change(|txn| {
            match look_up(txn, &abort.id, ClaimMethod::Abort, abort.fingerprint)? {
                Known::Claim(Claim { answer: Some(answer), .. }) => return Ok(answer),
                Known::Other(sentence) => return Ok(AbortAnswer::Conflict(sentence)),
                Known::New | Known::Claim(_) | Known::Run(_) => {}
            }
            let mut head = txn.head(&abort.key)?;
            let aborted = end_running(txn, &mut head, abort)?;
            let answer = if !aborted.is_empty() {
                txn.put_head(&head)?;
                AbortAnswer::Aborted(aborted)
            } else if head.pending == 0 && head.ended > 0 {
                AbortAnswer::Terminated
            } else {
                AbortAnswer::Idle
            };
            let claim = Claim {
                method: ClaimMethod::Abort,
                fingerprint: abort.fingerprint,
                at: abort.now,
                answer: Some(answer.clone()),
            };
            put_claim(txn, &abort.id, &claim)?;
            Ok(answer)
        })
    }
}

/// Ends what is RUNNING, and gives the ids.
fn end_running(txn: &mut Txn<'_>, head: &mut Head, abort: &Abort) -> Result<Vec<String>, StoreError> {
    let mut aborted = Vec::new();
    for id in head.running.clone() {
        let stored = match txn.read::<StoredRun>(&keys::run(&id)) {
            Ok(Some(stored)) if stored.run.state == RunState::Running => stored,
            Ok(_) => continue,
            // It cannot be ended, but it must not keep others from it.
            Err(StoreError::Damaged(what)) => {
                tracing::error!(record = ?what, "an abort passes over a damaged record");
                continue;
            }
            Err(error) => return Err(error),
        };
        end(txn, stored, head, Outcome::Aborted { reason: abort.reason.clone() }, abort.now)?;
        aborted.push(id);
    }
    Ok(aborted)
}
