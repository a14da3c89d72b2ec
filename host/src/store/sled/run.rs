//! A run's way from PENDING to its end.

use serde::Deserialize;

use super::engine::Engine;
use super::keys;
use super::outbox::put_in;
use super::records::{self, ExpiryMark, Head, StoredRun};
use super::session::{append, message as plain, write_state};
use super::txn::Txn;
use super::view::View;
use crate::store::{Entry, EntryKind, Finish, Finished, RunRecord, Start, StoreError};
use crate::wire::message::RawMessage;
use crate::wire::{Outcome, RunState};

impl Engine {
    pub(super) fn run(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let view = self.view();
        match view.read::<StoredRun>(&keys::run(id))? {
            None => Ok(None),
            Some(stored) => Ok(Some(*filled(view, stored.run)?)),
        }
    }

    pub(super) fn start(&mut self, id: &str, now: u64) -> Result<Start, StoreError> {
        self.change(|txn| {
            let Some(mut stored) = txn.read::<StoredRun>(&keys::run(id))? else {
                return Ok(Start::Missing);
            };
            if stored.run.state != RunState::Pending {
                return Ok(Start::NotPending(filled(txn.view, stored.run)?));
            }
            let place = keys::entry(&stored.run.key, stored.run.message_at, EntryKind::Sent);
            let message: Entry = txn.read(&place)?.ok_or_else(|| records::damaged(&place, "is missing"))?;
            let mut head = txn.head(&stored.run.key)?;
            stored.run.state = RunState::Running;
            stored.run.started_at = Some(now);
            stored.run.attempts = stored.run.attempts.saturating_add(1);
            head.pending = head.pending.saturating_sub(1);
            head.running.push(id.to_owned());
            txn.counts.pending = txn.counts.pending.saturating_sub(1);
            txn.counts.running += 1;
            txn.delete(keys::pending(stored.order));
            txn.put_new(keys::running(stored.order), id.as_bytes().to_vec());
            txn.put_head(&head)?;
            txn.write(keys::run(id), &stored)?;
            Ok(Start::Started { run: Box::new(stored.run), message: Box::new(message) })
        })
    }

    pub(super) fn finish(&mut self, finish: Finish) -> Result<Finished, StoreError> {
        self.change(|txn| {
            let Some(mut stored) = txn.read::<StoredRun>(&keys::run(&finish.run_id))? else {
                return Ok(Finished::Missing);
            };
            if stored.run.state.is_terminal() {
                return Ok(Finished::Lost(filled(txn.view, stored.run)?));
            }
            let mut head = txn.head(&stored.run.key)?;
            if finish.bot_version.is_some() {
                stored.run.bot_version = finish.bot_version;
            }
            if matches!(finish.outcome, Outcome::Completed { .. }) {
                write_state(txn, &stored.run.key, finish.writes)?;
            }
            let run = end(txn, stored, &mut head, finish.outcome, finish.now)?;
            txn.put_head(&head)?;
            Ok(Finished::Won(run))
        })
    }
}

/// Ends a run that has not ended: its reply, its record, its callback. The caller puts the head.
/// Gives the record with the reply's text in it.
pub(super) fn end(
    txn: &mut Txn<'_>,
    mut stored: StoredRun,
    head: &mut Head,
    outcome: Outcome,
    now: u64,
) -> Result<Box<RunRecord>, StoreError> {
    let run = &mut stored.run;
    leave(txn, head, run, stored.order);
    head.ended += 1;
    put_in(txn, run, &outcome, now)?;
    run.state = outcome.state();
    run.ended_at = Some(now);
    let mut reply = String::new();
    run.outcome = Some(match outcome {
        Outcome::Completed { text, stop_reason } => {
            let message = RawMessage::reply(&text, stop_reason.as_deref(), now);
            run.reply_at = Some(append(txn, head, now, plain(reply_id(&run.id), EntryKind::Reply, message))?);
            reply = text;
            Outcome::Completed { text: String::new(), stop_reason }
        }
        other => other,
    });
    txn.write_new(keys::expiry(now, &run.id), &ExpiryMark { id: run.id.clone(), run: true })?;
    txn.write(keys::run(&stored.run.id), &stored)?;
    if let Some(Outcome::Completed { text, .. }) = &mut stored.run.outcome {
        *text = reply;
    }
    Ok(Box::new(stored.run))
}

/// Takes a run out of what is PENDING or RUNNING.
pub(super) fn leave(txn: &mut Txn<'_>, head: &mut Head, run: &RunRecord, order: u64) {
    match run.state {
        RunState::Pending => {
            head.pending = head.pending.saturating_sub(1);
            txn.counts.pending = txn.counts.pending.saturating_sub(1);
            txn.delete(keys::pending(order));
        }
        RunState::Running => {
            head.running.retain(|id| *id != run.id);
            txn.counts.running = txn.counts.running.saturating_sub(1);
            txn.delete(keys::running(order));
        }
        _ => {}
    }
}

/// The id of a run's reply in the transcript.
fn reply_id(run_id: &str) -> String {
    format!("{run_id}:reply")
}

/// The record as it is given out: with the text of a completed run.
pub(super) fn filled(view: View<'_>, mut run: RunRecord) -> Result<Box<RunRecord>, StoreError> {
    if let (Some(Outcome::Completed { text, .. }), Some(at)) = (&mut run.outcome, run.reply_at) {
        let key = keys::entry(&run.key, at, EntryKind::Reply);
        let entry: Entry = view.read(&key)?.ok_or_else(|| records::damaged(&key, "is missing"))?;
        *text = reply_text(&key, &entry)?;
    }
    Ok(Box::new(run))
}

/// The text of a message made by [`RawMessage::reply`]. Not [`RawMessage::parse`], which is for what people send and takes a
/// sender line off.
fn reply_text(key: &[u8], entry: &Entry) -> Result<String, StoreError> {
    #[derive(Deserialize)]
    struct Reply {
        content: Vec<Block>,
    }
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        text: String,
    }
    let reply: Reply = records::decode(key, entry.message.message.get().as_bytes())?;
    Ok(reply.content.into_iter().map(|block| block.text).collect())
}
