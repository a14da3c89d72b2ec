//! Taking in: `chat.send` and `chat.inject`, each id once.

use super::engine::Engine;
use super::keys;
use super::records::{Claim, ClaimMethod, ExpiryMark, StoredRun};
use super::run::filled;
use super::session::{append, message as plain, write_state};
use super::txn::Txn;
use crate::store::{Admission, Admitted, Entry, EntryKind, Injected, Injection, RunRecord, StateWrite, StoreError};
use crate::wire::{Fingerprint, RunState, SessionKey};

/// What is known of an id.
pub(super) enum Known {
    /// Nothing.
    New,
    /// A run with the same method and body.
    Run(Box<StoredRun>),
    /// A claim with the same method and body.
    Claim(Claim),
    /// It was used for something else; the sentence says for what.
    Other(String),
}

/// Looks an id up. The ids of send, inject and abort share one name space.
pub(super) fn look_up(
    txn: &Txn<'_>,
    id: &str,
    method: ClaimMethod,
    fingerprint: Fingerprint,
) -> Result<Known, StoreError> {
    let run: Option<StoredRun> = txn.read(&keys::run(id))?;
    let (run, claim) = match run {
        Some(run) => (Some(run), None),
        None => (None, txn.read::<Claim>(&keys::claim(id))?),
    };
    let before = match (&run, &claim) {
        (Some(stored), _) => (ClaimMethod::Send, stored.run.fingerprint),
        (None, Some(claim)) => (claim.method, claim.fingerprint),
        (None, None) => return Ok(Known::New),
    };
    if before.0 != method {
        let sentence = format!(
            "id {id:?} was used before, for a {}: use a fresh id for this {}",
            before.0.as_str(),
            method.as_str()
        );
        return Ok(Known::Other(sentence));
    }
    if before.1 != fingerprint {
        let sentence =
            format!("id {id:?} was used before, for a {} with another body: use a fresh id", method.as_str());
        return Ok(Known::Other(sentence));
    }
    Ok(match (run, claim) {
        (Some(run), _) => Known::Run(Box::new(run)),
        (None, Some(claim)) => Known::Claim(claim),
        (None, None) => Known::New,
    })
}

/// Claims an id for an inject or abort.
pub(super) fn put_claim(txn: &mut Txn<'_>, id: &str, claim: &Claim) -> Result<(), StoreError> {
    txn.write_new(keys::claim(id), claim)?;
    txn.write_new(keys::expiry(claim.at, id), &ExpiryMark { id: id.to_owned(), run: false })
}

impl Engine {
    pub(super) fn admit(&mut self, admission: Admission) -> Result<Admitted, StoreError> {
        self.change(|txn| {
            match look_up(txn, &admission.id, ClaimMethod::Send, admission.fingerprint)? {
                Known::Run(stored) => return Ok(Admitted::Repeat(filled(txn.view, stored.run)?)),
                Known::Other(sentence) => return Ok(Admitted::Conflict(sentence)),
                Known::New | Known::Claim(_) => {}
            }
            let mut head = txn.head(&admission.key)?;
            if let Some(sentence) = busy(&admission, head.pending, txn.counts.pending) {
                return Ok(Admitted::Busy(sentence));
            }
            let Admission { id, key, group, tags, extensions, channel, fingerprint, message, now, deadline, .. } =
                admission;
            let message_at = append(txn, &mut head, now, plain(id.clone(), EntryKind::Sent, message))?;
            let run = RunRecord {
                id,
                key,
                group,
                tags,
                extensions,
                channel,
                fingerprint,
                admitted_at: now,
                deadline,
                started_at: None,
                ended_at: None,
                attempts: 0,
                message_at,
                reply_at: None,
                state: RunState::Pending,
                outcome: None,
                bot_version: None,
            };
            let order = txn.next_order;
            txn.next_order = order.saturating_add(1);
            head.pending += 1;
            txn.counts.pending += 1;
            txn.put_head(&head)?;
            txn.put_new(keys::pending(order), run.id.clone().into_bytes());
            let stored = StoredRun { order, run };
            txn.write_new(keys::run(&stored.run.id), &stored)?;
            Ok(Admitted::New(Box::new(stored.run)))
        })
    }

    pub(super) fn inject(&mut self, injection: Injection) -> Result<Injected, StoreError> {
        self.change(|txn| {
            match look_up(txn, &injection.id, ClaimMethod::Inject, injection.fingerprint)? {
                Known::Claim(_) => return Ok(Injected::Repeat),
                Known::Other(sentence) => return Ok(Injected::Conflict(sentence)),
                Known::New | Known::Run(_) => {}
            }
            let Injection { id, key, fingerprint, message, group, tags, extensions, now, owe_hook } = injection;
            let mut head = txn.head(&key)?;
            let entry = Entry { at: 0, id: id.clone(), kind: EntryKind::Injected, message, group, tags, extensions };
            let at = append(txn, &mut head, now, entry)?;
            txn.put_head(&head)?;
            put_claim(txn, &id, &Claim { method: ClaimMethod::Inject, fingerprint, at: now, answer: None })?;
            if owe_hook {
                txn.write_new(keys::hook(&key, at), &key)?;
            }
            Ok(Injected::New { at })
        })
    }

    pub(super) fn inject_done(
        &mut self,
        session: &SessionKey,
        at: u64,
        writes: Vec<StateWrite>,
    ) -> Result<(), StoreError> {
        self.change(|txn| {
            let hook = keys::hook(session, at);
            // A hook that is not owed has been done before.
            if txn.view.has(&hook)? {
                txn.delete(hook);
                write_state(txn, session, writes)?;
            }
            Ok(())
        })
    }
}

/// Which bound of PENDING runs is reached, if one is.
fn busy(admission: &Admission, in_session: u64, in_all: u64) -> Option<String> {
    let reached = |count: u64, most: usize| u64::try_from(most).is_ok_and(|most| count >= most);
    if reached(in_session, admission.max_pending_session) {
        Some(format!(
            "{in_session} messages already wait in this session and {} may: send again when some are done",
            admission.max_pending_session
        ))
    } else if reached(in_all, admission.max_pending_total) {
        Some(format!(
            "{in_all} messages already wait for this provider's bots and {} may: send again when some are done",
            admission.max_pending_total
        ))
    } else {
        None
    }
}
