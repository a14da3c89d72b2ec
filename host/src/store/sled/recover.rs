//! After a start: making sense of what the last process left.

use super::engine::Engine;
use super::keys;
use super::records::StoredRun;
use super::run::{end, leave};
use super::txn::Txn;
use crate::store::{Recovery, StoreError};
use crate::wire::{BotRef, Channel, Outcome, RunError, RunState, SessionKey};

/// What is to be done with a run.
enum Fate {
    /// It stays PENDING.
    Keep,
    /// It was RUNNING and is PENDING again.
    Rerun,
    /// It was RUNNING and has failed.
    Fail,
    /// It was PENDING and nobody would hear of it.
    Orphan,
}

impl Engine {
    /// Each run is an operation of its own: if the process ends in between, the next start does the rest.
    pub(super) fn recover(&mut self, now: u64, rerun: &[BotRef]) -> Result<Recovery, StoreError> {
        self.leases.clear();
        let mut recovery = Recovery::default();
        for kind in [keys::RUNNING, keys::PENDING] {
            for (_, id) in self.in_order(kind)? {
                match self.change(|txn| recover_run(txn, &id, now, rerun)) {
                    Ok(Some(Fate::Rerun)) => recovery.rerun += 1,
                    Ok(Some(Fate::Fail)) => recovery.failed += 1,
                    Ok(Some(Fate::Orphan)) => recovery.orphaned += 1,
                    Ok(Some(Fate::Keep) | None) => {}
                    Err(StoreError::Damaged(what)) => passed_over(&what),
                    Err(error) => return Err(error),
                }
            }
        }
        let view = self.view();
        for (_, id) in self.in_order(keys::PENDING)? {
            match view.read::<StoredRun>(&keys::run(&id)) {
                Ok(Some(stored)) => recovery.pending.push(stored.run),
                Ok(None) => {}
                Err(StoreError::Damaged(what)) => passed_over(&what),
                Err(error) => return Err(error),
            }
        }
        for found in view.of_kind(keys::HOOK) {
            let found = found?;
            match (keys::number(&found.key), view.decode::<SessionKey>(&found)) {
                (Some(at), Ok(session)) => recovery.hooks.push((session, at)),
                (None, Ok(_)) => passed_over(&keys::describe(&found.key)),
                (_, Err(StoreError::Damaged(what))) => passed_over(&what),
                (_, Err(error)) => return Err(error),
            }
        }
        Ok(recovery)
    }
}

fn passed_over(what: &str) {
    tracing::error!(record = ?what, "recovery passes over a damaged record");
}

fn recover_run(txn: &mut Txn<'_>, id: &str, now: u64, rerun: &[BotRef]) -> Result<Option<Fate>, StoreError> {
    let Some(mut stored) = txn.read::<StoredRun>(&keys::run(id))? else { return Ok(None) };
    let run = &stored.run;
    let told_by_callback = run.channel != Channel::Sse;
    let fate = match run.state {
        RunState::Pending if told_by_callback => Fate::Keep,
        RunState::Pending => Fate::Orphan,
        RunState::Running if told_by_callback && rerun.contains(&run.key.bot) => Fate::Rerun,
        RunState::Running => Fate::Fail,
        _ => return Ok(None),
    };
    let sentence = match fate {
        Fate::Keep => return Ok(Some(fate)),
        Fate::Rerun => None,
        Fate::Fail => Some("the provider was restarted while the bot was at work on this message; send it again"),
        Fate::Orphan => Some(
            "the provider was restarted while this message waited, and the stream for its reply is gone; send it again",
        ),
    };
    let mut head = txn.head(&run.key)?;
    if let Some(sentence) = sentence {
        let outcome = Outcome::Failed { error: RunError::new("restart", sentence) };
        end(txn, stored, &mut head, outcome, now)?;
    } else {
        leave(txn, &mut head, &stored.run, stored.order);
        stored.run.state = RunState::Pending;
        head.pending += 1;
        txn.counts.pending += 1;
        txn.put(keys::pending(stored.order), id.as_bytes().to_vec());
        txn.write(keys::run(id), &stored)?;
    }
    txn.put_head(&head)?;
    Ok(Some(fate))
}
