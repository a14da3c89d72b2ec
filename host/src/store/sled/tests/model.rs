//! The store again, as plain as can be: what the real one is compared with. It knows nothing of disks.

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::wire::{RunError, RunState, callback};

#[derive(Default)]
pub(super) struct Model {
    /// In order of admission.
    pub(super) runs: Vec<RunRecord>,
    /// Id → method, fingerprint, time, an abort's answer. Not the sends.
    claims: BTreeMap<String, (&'static str, Fingerprint, u64, Option<AbortAnswer>)>,
    pub(super) entries: HashMap<SessionKey, Vec<Entry>>,
    pub(super) state: HashMap<SessionKey, BTreeMap<String, Vec<u8>>>,
    pub(super) hooks: Vec<(u64, SessionKey)>,
    outbox: BTreeMap<String, OutboxEntry>,
    leases: HashMap<String, u64>,
    /// In order of start. The queue lets one run of a session be RUNNING, but the store does not count on it.
    running: Vec<String>,
}

impl Model {
    fn known(&self, id: &str) -> Option<(&'static str, Fingerprint)> {
        let run = self.runs.iter().find(|run| run.id == id).map(|run| ("send", run.fingerprint));
        run.or_else(|| self.claims.get(id).map(|claim| (claim.0, claim.1)))
    }

    fn append(&mut self, key: &SessionKey, now: u64, id: String, kind: EntryKind, message: RawMessage) -> u64 {
        let entries = self.entries.entry(key.clone()).or_default();
        let at = entries.last().map_or(now, |last| now.max(last.at + 1));
        entries.push(Entry { at, id, kind, message, group: String::new(), tags: Vec::new(), extensions: None });
        at
    }

    fn count(&self, state: RunState, key: Option<&SessionKey>) -> usize {
        self.runs.iter().filter(|run| run.state == state && key.is_none_or(|key| run.key == *key)).count()
    }

    pub(super) fn admit(&mut self, a: Admission) -> Admitted {
        match self.known(&a.id) {
            Some(("send", fingerprint)) if fingerprint == a.fingerprint => {
                return Admitted::Repeat(Box::new(self.run(&a.id).unwrap()));
            }
            Some(_) => return Admitted::Conflict(String::new()),
            None => {}
        }
        if self.count(RunState::Pending, Some(&a.key)) >= a.max_pending_session
            || self.count(RunState::Pending, None) >= a.max_pending_total
        {
            return Admitted::Busy(String::new());
        }
        let message_at = self.append(&a.key, a.now, a.id.clone(), EntryKind::Sent, a.message);
        self.runs.push(RunRecord {
            id: a.id,
            key: a.key,
            group: a.group,
            tags: a.tags,
            extensions: a.extensions,
            channel: a.channel,
            fingerprint: a.fingerprint,
            admitted_at: a.now,
            deadline: a.deadline,
            started_at: None,
            ended_at: None,
            attempts: 0,
            message_at,
            reply_at: None,
            state: RunState::Pending,
            outcome: None,
            bot_version: None,
        });
        Admitted::New(Box::new(self.runs.last().unwrap().clone()))
    }

    pub(super) fn inject(&mut self, i: Injection) -> Injected {
        match self.known(&i.id) {
            Some(("inject", fingerprint)) if fingerprint == i.fingerprint => return Injected::Repeat,
            Some(_) => return Injected::Conflict(String::new()),
            None => {}
        }
        self.claims.insert(i.id.clone(), ("inject", i.fingerprint, i.now, None));
        let at = self.append(&i.key, i.now, i.id, EntryKind::Injected, i.message);
        let entry = self.entries.get_mut(&i.key).unwrap().last_mut().unwrap();
        (entry.group, entry.tags, entry.extensions) = (i.group, i.tags, i.extensions);
        if i.owe_hook {
            self.hooks.push((at, i.key));
        }
        Injected::New { at }
    }

    pub(super) fn inject_done(&mut self, key: &SessionKey, at: u64, writes: Vec<StateWrite>) {
        let owed = self.hooks.len();
        self.hooks.retain(|hook| *hook != (at, key.clone()));
        if self.hooks.len() < owed {
            self.write(key, writes);
        }
    }

    fn write(&mut self, key: &SessionKey, writes: Vec<StateWrite>) {
        let state = self.state.entry(key.clone()).or_default();
        for write in writes {
            match write.value {
                Some(value) => drop(state.insert(write.key, value)),
                None => drop(state.remove(&write.key)),
            }
        }
    }

    pub(super) fn start(&mut self, id: &str, now: u64) -> Start {
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else { return Start::Missing };
        if run.state != RunState::Pending {
            return Start::NotPending(Box::new(run.clone()));
        }
        run.state = RunState::Running;
        run.started_at = Some(now);
        run.attempts += 1;
        self.running.push(id.into());
        let message = self.entries[&run.key].iter().find(|entry| entry.at == run.message_at).unwrap();
        Start::Started { run: Box::new(run.clone()), message: Box::new(message.clone()) }
    }

    fn end(&mut self, id: &str, outcome: Outcome, now: u64) {
        let n = self.runs.iter().position(|run| run.id == id).unwrap();
        let mut run = self.runs[n].clone();
        self.running.retain(|running| running != id);
        if let Outcome::Completed { text, stop_reason } = &outcome {
            let message = RawMessage::reply(text, stop_reason.as_deref(), now);
            run.reply_at = Some(self.append(&run.key, now, format!("{id}:reply"), EntryKind::Reply, message));
        }
        let bodies = callback::bodies(run.channel, id, &outcome, now, String::new);
        if !bodies.is_empty() {
            let entry = OutboxEntry {
                run_id: id.into(),
                bot: run.key.bot.clone(),
                channel: run.channel,
                bodies,
                done: 0,
                created_at: now,
                give_up_at: run.deadline + 3_600_000,
                attempts: 0,
                due_at: now,
                last_error: None,
                dead: false,
            };
            self.outbox.insert(id.into(), entry);
        }
        run.state = outcome.state();
        run.outcome = Some(outcome);
        run.ended_at = Some(now);
        self.runs[n] = run;
    }

    pub(super) fn finish(&mut self, f: Finish) -> Finished {
        let Some(run) = self.runs.iter_mut().find(|run| run.id == f.run_id) else { return Finished::Missing };
        if run.state.is_terminal() {
            return Finished::Lost(Box::new(run.clone()));
        }
        if f.bot_version.is_some() {
            run.bot_version = f.bot_version;
        }
        let key = run.key.clone();
        if matches!(f.outcome, Outcome::Completed { .. }) {
            self.write(&key, f.writes);
        }
        self.end(&f.run_id, f.outcome, f.now);
        Finished::Won(Box::new(self.run(&f.run_id).unwrap()))
    }

    pub(super) fn abort(&mut self, a: &Abort) -> AbortAnswer {
        match self.known(&a.id) {
            Some(("abort", fingerprint)) if fingerprint == a.fingerprint => {
                return self.claims[&a.id].3.clone().unwrap();
            }
            Some(_) => return AbortAnswer::Conflict(String::new()),
            None => {}
        }
        let of_session = self.runs.iter().filter(|run| run.key == a.key);
        let mut running = self.running.clone();
        running.retain(|id| of_session.clone().any(|run| run.id == *id));
        let answer = if !running.is_empty() {
            AbortAnswer::Aborted(running.clone())
        } else if of_session.clone().count() > 0 && of_session.clone().all(|run| run.state.is_terminal()) {
            AbortAnswer::Terminated
        } else {
            AbortAnswer::Idle
        };
        for id in running {
            self.end(&id, Outcome::Aborted { reason: a.reason.clone() }, a.now);
        }
        self.claims.insert(a.id.clone(), ("abort", a.fingerprint, a.now, Some(answer.clone())));
        answer
    }

    pub(super) fn run(&self, id: &str) -> Option<RunRecord> {
        self.runs.iter().find(|run| run.id == id).cloned()
    }

    pub(super) fn outbox_take(&mut self, now: u64, limit: usize, lease_ms: u64) -> OutboxBatch {
        self.leases.retain(|_, until| *until > now);
        let free = |entry: &&OutboxEntry| !entry.dead && !self.leases.contains_key(&entry.run_id);
        let mut due: Vec<OutboxEntry> =
            self.outbox.values().filter(free).filter(|entry| entry.due_at <= now).cloned().collect();
        due.sort_by_key(|entry| (entry.due_at, entry.created_at, entry.run_id.clone()));
        due.truncate(limit);
        self.leases.extend(due.iter().map(|entry| (entry.run_id.clone(), now + lease_ms)));
        let live = self.outbox.values().filter(|entry| !entry.dead);
        let next_due = live.map(|entry| self.leases.get(&entry.run_id).copied().unwrap_or(entry.due_at)).min();
        OutboxBatch { entries: due, next_due }
    }

    pub(super) fn outbox_settle(&mut self, id: &str, settlement: Settlement) {
        self.leases.remove(id);
        let Some(entry) = self.outbox.get_mut(id) else { return };
        match settlement {
            Settlement::Delivered => drop(self.outbox.remove(id)),
            _ if entry.dead => {}
            Settlement::Progress { done } => (entry.done, entry.attempts, entry.last_error) = (done, 0, None),
            Settlement::Retry { at, error } => {
                (entry.attempts, entry.due_at, entry.last_error) = (entry.attempts + 1, at, Some(error));
            }
            Settlement::Dead { error } => {
                (entry.attempts, entry.dead, entry.last_error) = (entry.attempts + 1, true, Some(error));
            }
        }
    }

    pub(super) fn recover(&mut self, now: u64, rerun: &[BotRef]) -> Recovery {
        self.leases.clear();
        let mut recovery = Recovery::default();
        for state in [RunState::Running, RunState::Pending] {
            let ids = self.runs.iter().filter(|run| run.state == state).map(|run| run.id.clone());
            for id in ids.collect::<Vec<_>>() {
                let run = self.runs.iter_mut().find(|run| run.id == id).unwrap();
                let callback = run.channel != Channel::Sse;
                match state {
                    RunState::Pending if callback => continue,
                    RunState::Pending => recovery.orphaned += 1,
                    _ if callback && rerun.contains(&run.key.bot) => {
                        run.state = RunState::Pending;
                        self.running.retain(|running| *running != id);
                        recovery.rerun += 1;
                        continue;
                    }
                    _ => recovery.failed += 1,
                }
                let sentence = if state == RunState::Running {
                    "the provider was restarted while the bot was at work on this message; send it again"
                } else {
                    "the provider was restarted while this message waited, and the stream for its reply is gone; send it again"
                };
                self.end(&id, Outcome::Failed { error: RunError::new("restart", sentence) }, now);
            }
        }
        recovery.pending = self.runs.iter().filter(|run| run.state == RunState::Pending).cloned().collect();
        self.hooks.sort_by_key(|(at, key)| keys::hook(key, *at));
        recovery.hooks = self.hooks.iter().map(|(at, key)| (key.clone(), *at)).collect();
        recovery
    }

    /// What may go, and when it was. The budget decides how much of it goes, the oldest first.
    pub(super) fn expire(&mut self, now: u64, retention: Retention, budget: usize) -> usize {
        let old = |at: u64| at + retention.ids_ms <= now;
        let mut gone: Vec<(u64, String)> = Vec::new();
        for run in &self.runs {
            let waits = self.outbox.get(&run.id).is_some_and(|entry| !entry.dead);
            gone.extend(run.ended_at.filter(|at| old(*at) && !waits).map(|at| (at, run.id.clone())));
        }
        gone.extend(self.claims.iter().filter(|(_, claim)| old(claim.2)).map(|(id, claim)| (claim.2, id.clone())));
        gone.sort_unstable();
        gone.truncate(budget);
        for (_, id) in &gone {
            self.runs.retain(|run| run.id != *id);
            self.claims.remove(id);
            self.outbox.remove(id);
        }
        gone.len()
    }

    pub(super) fn stats(&self) -> StoreStats {
        StoreStats {
            pending: self.count(RunState::Pending, None) as u64,
            running: self.count(RunState::Running, None) as u64,
            outbox: self.outbox.values().filter(|entry| !entry.dead).count() as u64,
            dead: self.outbox.values().filter(|entry| entry.dead).count() as u64,
            disk_bytes: 0,
        }
    }

    /// The process ended: what was in memory only is gone.
    pub(super) fn reopen(&mut self) {
        self.leases.clear();
    }
}
