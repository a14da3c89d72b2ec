//! Into the house: a send or an inject becomes durable, then joins its session's queue, in one order.

use std::sync::Arc;

use super::deadline;
use super::live::LiveRun;
use super::log::EventLog;
use super::queue::Item;
use super::stream::EventStream;
use super::{Inner, Runs};
use crate::network::AckHold;
use crate::store::{Abort, AbortAnswer, Admission, Admitted, Injected, Injection, Recovery, RunRecord, StoreError};
use crate::wire::{ApiError, BotRef, Channel, ErrorCode, Outcome, RunState};

/// An admitted run.
#[derive(Debug)]
pub struct AdmittedRun {
    /// Its record, as of the admission (of a repeat: as it stands).
    pub record: Box<RunRecord>,
    /// Whether the same request was admitted before.
    pub repeat: bool,
    /// Keeps the run's callback back until the acknowledgement is on the wire.
    pub hold: Option<AckHold>,
}

/// What a streaming answer can be made of.
#[derive(Debug)]
pub enum Attachable {
    /// A run in memory.
    Live(Arc<LiveRun>),
    /// A run that ended earlier; its end.
    Ended(Outcome),
}

impl Attachable {
    /// A stream of the run's events, for one reader.
    #[must_use]
    pub fn into_stream(self, run_id: &str) -> EventStream {
        match self {
            Self::Live(run) => {
                let reader = run.read();
                EventStream::new(run.log.clone(), Some(reader))
            }
            Self::Ended(outcome) => EventStream::new(Arc::new(EventLog::of_ended(run_id, &outcome)), None),
        }
    }
}

/// The refusal of a request that the store could not keep.
pub(crate) fn store_refusal(error: &StoreError) -> ApiError {
    tracing::error!(%error, "a request was refused because it could not be kept");
    ApiError::new(
        ErrorCode::Unavailable,
        "The request could not be put on disk, so it is not accepted. Try again later.",
    )
    .retry_after_ms(5_000)
}

/// The rest of an admission goes on even if the client hangs up: what is on disk must also be queued.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "an admission ended unexpectedly");
        Err(ApiError::new(ErrorCode::Unavailable, "The host met an internal error; its log has the details."))
    })
}

impl Runs {
    /// Admits a `chat.send`: on disk and in its session's queue when this returns.
    ///
    /// # Errors
    /// `conflict`, `rate_limited` and `unavailable`.
    pub async fn admit(&self, admission: Admission) -> Result<AdmittedRun, ApiError> {
        let inner = self.0.clone();
        detached(async move { inner.admit(admission).await }).await
    }

    /// Keeps a `chat.inject`; the bot's hook follows in the session's turn.
    ///
    /// # Errors
    /// `conflict` and `unavailable`.
    pub async fn inject(&self, injection: Injection) -> Result<(), ApiError> {
        let inner = self.0.clone();
        detached(async move { inner.inject(injection).await }).await
    }

    /// `chat.abort`: what was RUNNING has ended, on disk and for the bots, when this returns.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn abort(&self, abort: Abort) -> Result<AbortAnswer, ApiError> {
        let inner = self.0.clone();
        detached(async move { inner.abort(abort).await }).await
    }

    /// What a stream of this run can be made of, for a first or a repeated `chat.send`.
    ///
    /// # Errors
    /// `unavailable` if the run is neither in memory nor ended.
    pub async fn attach(&self, id: &str) -> Result<Attachable, ApiError> {
        if let Some(run) = self.live(id) {
            return Ok(Attachable::Live(run));
        }
        let record = self.0.store.run(id).await.map_err(|e| store_refusal(&e))?;
        if let Some(outcome) = record.and_then(|r| r.outcome) {
            return Ok(Attachable::Ended(outcome));
        }
        Err(ApiError::new(ErrorCode::Unavailable, "The run is not ready yet. Try again in a moment.")
            .retry_after_ms(500))
    }

    /// Takes up what an earlier process left: callback runs that were PENDING run, what was RUNNING has ended as
    /// failed (or runs again, for the bots in `rerun`).
    ///
    /// # Errors
    /// The store's.
    pub async fn recover(&self, rerun: Vec<BotRef>) -> Result<Recovery, StoreError> {
        let recovery = self.0.store.recover(crate::clock::now_ms(), rerun).await?;
        for (key, at) in &recovery.hooks {
            self.0.enqueue(key, Item::Hook { at: *at });
        }
        for record in &recovery.pending {
            self.0.take_up(record);
        }
        self.0.outbox.notify();
        Ok(recovery)
    }
}

impl Inner {
    async fn admit(self: Arc<Self>, admission: Admission) -> Result<AdmittedRun, ApiError> {
        // One at a time a session from here to the queue, so that the order on disk is the order of service.
        let _turn = self.sessions.gate(&admission.key).await;
        // Before the run can end: its callback must wait for the acknowledgement.
        let hold = (admission.channel != Channel::Sse).then(|| self.outbox.hold(&admission.id));
        let refusal = match self.store.admit(admission).await {
            Ok(Admitted::New(record)) => {
                self.take_up(&record);
                return Ok(AdmittedRun { record, repeat: false, hold });
            }
            Ok(Admitted::Repeat(record)) => return Ok(AdmittedRun { record, repeat: true, hold }),
            Ok(Admitted::Conflict(why)) => ApiError::new(ErrorCode::Conflict, why),
            Ok(Admitted::Busy(why)) => ApiError::new(ErrorCode::RateLimited, why).retry_after_ms(2_000),
            Err(error) => store_refusal(&error),
        };
        if let Some(hold) = hold {
            hold.withdraw();
        }
        Err(refusal)
    }

    async fn inject(self: Arc<Self>, injection: Injection) -> Result<(), ApiError> {
        let key = injection.key.clone();
        let _turn = self.sessions.gate(&key).await;
        match self.store.inject(injection).await.map_err(|e| store_refusal(&e))? {
            Injected::New { at } => {
                self.enqueue(&key, Item::Hook { at });
                Ok(())
            }
            Injected::Repeat => Ok(()),
            Injected::Conflict(why) => Err(ApiError::new(ErrorCode::Conflict, why)),
        }
    }

    async fn abort(self: Arc<Self>, abort: Abort) -> Result<AbortAnswer, ApiError> {
        let reason = abort.reason.clone();
        let answer = self.store.abort(abort).await.map_err(|e| store_refusal(&e))?;
        if let AbortAnswer::Aborted(ids) = &answer {
            for id in ids {
                let run = self.live().get(id).cloned();
                if let Some(run) = run {
                    run.cancel.cancel(crate::bot::CancelCause::Aborted);
                    self.bots.nudge();
                    run.end(&Outcome::Aborted { reason: reason.clone() });
                }
            }
            self.outbox.notify();
        }
        Ok(answer)
    }

    /// A PENDING run enters memory: its deadline holds, its stream is watched, its session serves it in turn.
    fn take_up(self: &Arc<Self>, record: &RunRecord) {
        debug_assert_eq!(record.state, RunState::Pending);
        let run = Arc::new(LiveRun::new(record, EventLog::new(&record.id, self.options.log)));
        self.live().insert(run.id.clone(), run.clone());
        deadline::watch(self, &run);
        self.enqueue(&run.key.clone(), Item::Run(run));
    }
}
