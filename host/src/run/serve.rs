//! Serving one item of a session: a slot, the bot, its call, and the end on disk before it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Inner;
use super::conversation::{StoredConversation, past};
use super::deadline::stopped;
use super::live::LiveRun;
use super::log::EventLog;
use crate::bot::{
    Call, CallEnd, CallError, CancelCause, CancelToken, EventSink, Export, Lookup, RequestInfo, ServedBot,
};
use crate::clock::now_ms;
use crate::store::{Entry, Finish, Finished, RunRecord, Start, StateWrite};
use crate::wire::{BotRef, Channel, Event, Outcome, RunError, SessionKey};

impl EventSink for EventLog {
    fn emit(&self, event: Event) {
        self.push(event);
    }
}

/// What an `inject` function says has no listener.
struct NoSink;

impl EventSink for NoSink {
    fn emit(&self, _event: Event) {}
}

impl Inner {
    /// Serves a run from its turn to its end.
    pub(super) async fn serve_run(self: &Arc<Self>, run: &Arc<LiveRun>) {
        let Some((bot, _slot)) = self.until_ready(run).await else { return };
        match self.store.start(&run.id, now_ms()).await {
            Ok(Start::Started { run: record, message }) => {
                run.set_started();
                run.log.push(Event::Started);
                self.running.fetch_add(1, Ordering::AcqRel);
                self.call_run(run, &record, &message, bot).await;
                self.running.fetch_sub(1, Ordering::AcqRel);
            }
            // Its deadline or a shutdown came first, and whoever ended it has told so.
            Ok(Start::NotPending(_) | Start::Missing) => {}
            Err(error) => {
                tracing::error!(run = ?run.id, %error, "a run could not be started");
                run.end(&internal("The run could not be started, because the host's data store failed."));
            }
        }
    }

    /// Waits for a slot and for the bot; `None` if the run has been ended instead.
    async fn until_ready(self: &Arc<Self>, run: &Arc<LiveRun>) -> Option<(Arc<ServedBot>, super::slots::Slot)> {
        tokio::select! {
            // Whoever cancelled a run that has not started also ends it.
            _ = run.cancel.cancelled() => return None,
            () = run.until_opened() => {}
        }
        let mut changed = self.bots.changed();
        loop {
            changed.mark_unchanged();
            let bot = match self.bots.lookup(&run.key.bot) {
                Lookup::Serving(bot) => bot,
                Lookup::Loading => {
                    tokio::select! {
                        _ = run.cancel.cancelled() => return None,
                        _ = changed.changed() => continue,
                    }
                }
                Lookup::Broken(why) => {
                    self.end_run(run, unavailable(&run.key.bot, &why), Vec::new(), None).await;
                    return None;
                }
                Lookup::Unknown => {
                    let why = "it is not in the plugins folder any more";
                    self.end_run(run, unavailable(&run.key.bot, why), Vec::new(), None).await;
                    return None;
                }
            };
            let slot = tokio::select! {
                _ = run.cancel.cancelled() => return None,
                slot = self.slots.take(&run.key.bot, bot.limits.max_concurrent) => slot?,
            };
            // The build may have been replaced while it waited: the newest serves.
            return match self.bots.lookup(&run.key.bot) {
                Lookup::Serving(bot) => Some((bot, slot)),
                _ => continue,
            };
        }
    }

    async fn call_run(self: &Arc<Self>, run: &Arc<LiveRun>, record: &RunRecord, message: &Entry, bot: Arc<ServedBot>) {
        let end = match past(message) {
            Ok(past) => {
                let call = Call {
                    export: Export::Send,
                    request: request_info(record),
                    message: past,
                    conversation: Arc::new(self.conversation(&run.key, message.at)),
                    sink: run.log.clone(),
                    cancel: run.cancel.clone(),
                };
                self.bots.call(&bot, call).await
            }
            Err(error) => CallEnd::internal(format!("The kept message cannot be read: {error}.")),
        };
        let CallEnd { result, writes, report } = end;
        if matches!(result, Err(CallError::Cancelled(CancelCause::Shutdown)))
            && bot.manifest.rerun_after_crash
            && run.channel != Channel::Sse
        {
            tracing::info!(bot = %run.key.bot, run = ?run.id, "stopped by the shutdown; it runs again after the next start");
            return;
        }
        let outcome = match result {
            Ok(reply) => Outcome::Completed { text: run.log.compose(&reply.text), stop_reason: reply.stop_reason },
            Err(error) => failure(error, run),
        };
        tracing::info!(
            bot = %run.key.bot,
            session = ?run.key.session,
            run = ?run.id,
            state = ?outcome.state(),
            wall_ms = u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
            cpu_ms = u64::try_from(report.cpu.as_millis()).unwrap_or(u64::MAX),
            memory_bytes = report.memory_peak,
            stopped_after_us = report.stopped_after.map(|d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX)),
            "run ended"
        );
        self.end_run(run, outcome, writes, Some(bot.hash.clone())).await;
    }

    /// Ends a run on disk and, if this end was the first, tells it.
    pub(super) async fn end_run(
        self: &Arc<Self>,
        run: &Arc<LiveRun>,
        outcome: Outcome,
        writes: Vec<StateWrite>,
        bot_version: Option<String>,
    ) {
        let finish = Finish { run_id: run.id.clone(), outcome: outcome.clone(), writes, bot_version, now: now_ms() };
        match self.store.finish(finish).await {
            Ok(Finished::Won(_)) => {
                run.end(&outcome);
                self.outbox.notify();
            }
            // The winner tells it: an abort does so after its own write.
            Ok(Finished::Lost(record)) => {
                if let Some(outcome) = record.outcome {
                    run.end(&outcome);
                }
            }
            Ok(Finished::Missing) => run.end(&internal("The run's record is gone.")),
            Err(error) => {
                tracing::error!(run = ?run.id, %error, "a run's end could not be kept");
                run.end(&internal("The run's end could not be put on disk, so it does not count."));
            }
        }
    }

    /// Calls the bot's `inject` function for a message that is in the transcript already. What goes wrong is logged:
    /// the server has its acknowledgement.
    pub(super) async fn serve_hook(self: &Arc<Self>, key: &SessionKey, at: u64) {
        let writes = match self.call_hook(key, at).await {
            Ok(writes) => writes,
            Err(why) => {
                tracing::warn!(bot = %key.bot, session = ?key.session, why = ?why, "the bot's inject function did not end well");
                Vec::new()
            }
        };
        if let Err(error) = self.store.inject_done(key.clone(), at, writes).await {
            tracing::error!(bot = %key.bot, session = ?key.session, %error, "the end of an inject function could not be kept");
        }
    }

    async fn call_hook(self: &Arc<Self>, key: &SessionKey, at: u64) -> Result<Vec<StateWrite>, String> {
        let entry = self.store.injected(key.clone(), at).await.map_err(|e| e.to_string())?;
        let Some(entry) = entry else { return Ok(Vec::new()) };
        let Lookup::Serving(bot) = self.bots.lookup(&key.bot) else {
            return Err("the bot is not loaded".into());
        };
        let Some(_slot) = self.slots.take(&key.bot, bot.limits.max_concurrent).await else { return Ok(Vec::new()) };
        let deadline = now_ms() + u64::try_from(bot.limits.inject_time.as_millis()).unwrap_or(u64::MAX);
        let call = Call {
            export: Export::Inject,
            request: RequestInfo {
                id: entry.id.clone(),
                session: key.session.to_string(),
                group: entry.group.clone(),
                tags: entry.tags.clone(),
                deadline,
                extensions: entry.extensions.as_ref().map(|e| e.get().to_owned()),
            },
            message: past(&entry).map_err(|e| e.to_string())?,
            conversation: Arc::new(self.conversation(key, at)),
            sink: Arc::new(NoSink),
            cancel: CancelToken::default(),
        };
        let end = self.bots.call(&bot, call).await;
        match end.result {
            Ok(_) => Ok(end.writes),
            Err(error) => Err(error.to_string()),
        }
    }

    fn conversation(&self, key: &SessionKey, message_at: u64) -> StoredConversation {
        StoredConversation { store: self.store.clone(), key: key.clone(), message_at }
    }
}

fn request_info(record: &RunRecord) -> RequestInfo {
    RequestInfo {
        id: record.id.clone(),
        session: record.key.session.to_string(),
        group: record.group.clone(),
        tags: record.tags.clone(),
        deadline: record.deadline,
        extensions: record.extensions.as_ref().map(|e| e.get().to_owned()),
    }
}

fn failure(error: CallError, run: &LiveRun) -> Outcome {
    if let CallError::Cancelled(cause) = error {
        return stopped(cause, run);
    }
    Outcome::Failed { error: RunError::new(error.kind(), error.to_string()) }
}

fn unavailable(bot: &BotRef, why: &str) -> Outcome {
    Outcome::Failed { error: RunError::new("bot_unavailable", format!("The bot {bot} cannot serve: {why}.")) }
}

fn internal(message: &str) -> Outcome {
    Outcome::Failed { error: RunError::new("internal", message) }
}
