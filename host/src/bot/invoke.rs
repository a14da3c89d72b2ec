//! One call: a fresh store and instance, from the first instruction to the last byte given back.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::bindings::avernest::bot::types;
use super::call::{Call, CallEnd, CallError, CallReport, CancelCause, Export, Limits, Reply};
use super::component::Prepared;
use super::executor::{TaskState, Verdict};
use super::guest::GuestState;
use super::imports::{cut, export_failure, export_message, export_request};
use super::limits::{LimitHit, MemoryBudget};
use super::log::BotLog;

/// How long the description of a trap, and its backtrace, may be.
const TRAP_TEXT: usize = 4 * 1024;

/// Room above the limits for what wasmtime itself counts for a host call.
const LIFT_SLACK: usize = 1024 * 1024;

/// Everything that a call needs.
pub(super) struct Job {
    pub(super) prepared: Arc<Prepared>,
    pub(super) limits: Limits,
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) log: Arc<dyn BotLog>,
    pub(super) call: Call,
    pub(super) state: Arc<TaskState>,
    /// When its time is up, for an `inject`.
    pub(super) until: Option<Instant>,
}

/// How the guest's part ended.
enum Outcome {
    Returned(Result<Reply, types::Failure>),
    Trapped(wasmtime::Error),
    Cancelled(CancelCause),
    Late,
}

impl Outcome {
    fn backtrace(&self) -> Option<String> {
        let Self::Trapped(error) = self else { return None };
        error.downcast_ref::<WasmBacktrace>().map(|backtrace| cut(backtrace.to_string(), TRAP_TEXT))
    }
}

impl Job {
    /// Runs it, on a guest thread.
    pub(super) async fn run(self) -> CallEnd {
        let began = Instant::now();
        let mut store = self.store();
        let mut instantiate = None;
        let outcome = self.drive(&mut store, &mut instantiate).await;
        let backtrace = outcome.backtrace();
        let result = self.judge(&mut store, outcome);
        let data = store.data_mut();
        data.finish_log();
        let writes = if result.is_ok() { data.session.take_writes() } else { Vec::new() };
        let mut report = CallReport {
            instantiate: instantiate.unwrap_or_default(),
            memory_peak: data.limiter.memory_peak(),
            stderr_tail: data.stderr_tail(),
            backtrace: backtrace.filter(|_| matches!(result, Err(CallError::Trap(_)))),
            ..CallReport::default()
        };
        drop(store);
        if matches!(result, Err(CallError::Cancelled(_))) {
            report.stopped_after = self.call.cancel.cancelled_at().map(|at| at.elapsed());
        }
        report.cpu = self.state.cpu_time();
        report.wall = began.elapsed();
        CallEnd { result, writes, report }
    }

    /// Makes an instance and no call: whether the component starts, and has the types it should have.
    pub(super) async fn try_start(self) -> Result<(), CallError> {
        let mut store = self.store();
        let started = self.prepared.pre.instantiate_async(&mut store).await;
        match started {
            Ok(_) => Ok(()),
            // That the host is full says nothing about the component.
            Err(error) if store.data().limiter.host_was_full() || error.is::<PoolConcurrencyLimitError>() => Ok(()),
            Err(error) => match self.judge(&mut store, Outcome::Trapped(error)) {
                Err(CallError::Trap(text)) => Err(CallError::Trap(with_last_words(text, &store.data().stderr_tail()))),
                other => other.map(|_| ()),
            },
        }
    }

    fn store(&self) -> Store<GuestState> {
        let data = GuestState::new(&self.call, &self.limits, self.log.clone(), self.budget.clone());
        let mut store = Store::new(self.prepared.pre.engine(), data);
        store.limiter(|data| &mut data.limiter);
        store.set_hostcall_fuel(self.limits.host_data_bytes.max(self.limits.output_bytes).saturating_add(LIFT_SLACK));
        let state = self.state.clone();
        let cpu_limit = self.limits.cpu_time;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |mut store| {
            Ok(match state.at_tick() {
                Verdict::Go => UpdateDeadline::Continue(1),
                Verdict::Yield => UpdateDeadline::Yield(1),
                Verdict::Stop => UpdateDeadline::Interrupt,
                Verdict::CpuLimit => {
                    let hit = LimitHit::new(
                        "The bot used up its CPU time",
                        usize::try_from(cpu_limit.as_millis()).unwrap_or(usize::MAX),
                        "ms",
                        "limits.cpu_seconds",
                    );
                    return Err(store.data_mut().over(hit));
                }
            })
        });
        store
    }

    /// Runs the guest until it ends or is to end. When this returns, nothing of the guest runs any more.
    async fn drive(&self, store: &mut Store<GuestState>, instantiate: &mut Option<Duration>) -> Outcome {
        let late = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            cause = self.call.cancel.cancelled() => Outcome::Cancelled(cause),
            () = late => Outcome::Late,
            ended = self.guest(store, instantiate) => match ended {
                Ok(returned) => Outcome::Returned(returned),
                Err(error) => Outcome::Trapped(error),
            },
        }
    }

    async fn guest(
        &self,
        store: &mut Store<GuestState>,
        instantiate: &mut Option<Duration>,
    ) -> wasmtime::Result<Result<Reply, types::Failure>> {
        let began = Instant::now();
        let bot = self.prepared.pre.instantiate_async(&mut *store).await?;
        *instantiate = Some(began.elapsed());
        let request = export_request(&self.call.request);
        let message = export_message(self.call.message.clone());
        let chat = bot.avernest_bot_chat();
        let returned = match self.call.export {
            Export::Send => chat.call_send(&mut *store, &request, &message).await?,
            Export::Inject => chat
                .call_inject(&mut *store, &request, &message)
                .await?
                .map(|()| types::Reply { text: String::new(), stop_reason: None }),
        };
        if let Ok(reply) = &returned {
            store.data_mut().take_output(reply.text.len() + reply.stop_reason.as_ref().map_or(0, String::len))?;
        }
        Ok(returned.map(|reply| Reply { text: reply.text, stop_reason: reply.stop_reason }))
    }

    /// Says why it ended, the first cause first: a guest that is stopped traps too.
    fn judge(&self, store: &mut Store<GuestState>, outcome: Outcome) -> Result<Reply, CallError> {
        let error = match outcome {
            Outcome::Returned(returned) => return returned.map_err(export_failure),
            Outcome::Cancelled(cause) => return Err(CallError::Cancelled(cause)),
            Outcome::Late => return Err(self.late()),
            Outcome::Trapped(error) => error,
        };
        if let Some(cause) = self.call.cancel.cause() {
            return Err(CallError::Cancelled(cause));
        }
        if self.until.is_some_and(|until| until <= Instant::now()) {
            return Err(self.late());
        }
        let data = store.data_mut();
        if let Some(failure) = data.session.take_failure() {
            return Err(CallError::Internal(format!("The session could not be read: {failure}.")));
        }
        if let Some(hit) = data.take_hit() {
            return Err(CallError::Limit(hit.into_text()));
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return Err(CallError::Internal("More bots run at once than the host has places for.".into()));
        }
        if is_out_of_lift_fuel(&error) {
            let hit = LimitHit::new(
                "The bot handed more to the host in one call than it may",
                self.limits.host_data_bytes,
                "bytes",
                "limits.host_data_mb",
            );
            return Err(CallError::Limit(hit.into_text()));
        }
        Err(CallError::Trap(describe_trap(&error)))
    }

    fn late(&self) -> CallError {
        let hit = LimitHit::new(
            "The bot's inject took too long",
            usize::try_from(self.limits.inject_time.as_millis()).unwrap_or(usize::MAX),
            "ms",
            "limits.inject_seconds",
        );
        CallError::Limit(hit.into_text())
    }
}

/// A bot that does not even start is its author's or operator's concern: they see what it said.
fn with_last_words(text: String, stderr: &str) -> String {
    match stderr.trim() {
        "" => text,
        words => cut(format!("{text} It said on stderr: {words}"), TRAP_TEXT),
    }
}

/// wasmtime gives no type for it, only these words.
fn is_out_of_lift_fuel(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("fuel allocated for hostcalls"))
}

fn describe_trap(error: &wasmtime::Error) -> String {
    let text = if let Some(exit) = error.downcast_ref::<I32Exit>() {
        format!("The bot ended itself with exit code {} instead of returning.", exit.0)
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        format!("The bot trapped: {trap}.")
    } else {
        format!("The bot trapped: {}.", error.root_cause())
    };
    cut(text, TRAP_TEXT)
}
