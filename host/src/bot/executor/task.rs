//! One guest as the threads see it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_task::FallibleTask;

use super::queue::{Level, Queue};
use crate::bot::CancelToken;

/// A guest that has used no more than this goes before all others: most calls are done by then.
const NEW: Duration = Duration::from_millis(1);

/// A guest that has used no more than this goes before those that have.
const FRESH: Duration = Duration::from_millis(10);

/// How long such a guest runs before it makes room, looked at when the epoch ticks.
const SHORT_SLICE: Duration = Duration::from_millis(1);

/// The same for one that has used more: turns are worth more when they come less often.
const LONG_SLICE: Duration = Duration::from_millis(5);

/// What a guest does when the epoch ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bot) enum Verdict {
    /// Go on.
    Go,
    /// Make room for others.
    Yield,
    /// End: it was cancelled, or nobody waits for it any more.
    Stop,
    /// End: it has used the time it may use.
    CpuLimit,
}

/// What is known of a guest from outside.
pub(in crate::bot) struct TaskState {
    cancel: CancelToken,
    /// When its time is up, for an `inject`.
    until: Option<Instant>,
    cpu_limit: Duration,
    born: Instant,
    used_ns: AtomicU64,
    slice_began_ns: AtomicU64,
    abandoned: AtomicBool,
    room_asked: AtomicBool,
}

impl TaskState {
    pub(in crate::bot) fn new(cancel: CancelToken, until: Option<Instant>, cpu_limit: Duration) -> Self {
        Self {
            cancel,
            until,
            cpu_limit,
            born: Instant::now(),
            used_ns: AtomicU64::new(0),
            slice_began_ns: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            room_asked: AtomicBool::new(false),
        }
    }

    /// Whether there is a reason to end it.
    pub(in crate::bot) fn is_stopping(&self) -> bool {
        self.cancel.cause().is_some()
            || self.abandoned.load(Ordering::Acquire)
            || self.until.is_some_and(|until| until <= Instant::now())
    }

    /// Asked by the guest itself whenever the epoch has ticked.
    pub(in crate::bot) fn at_tick(&self) -> Verdict {
        if self.is_stopping() {
            return Verdict::Stop;
        }
        let (used, slice) = (self.used(), self.slice());
        let may_take = if used <= FRESH { SHORT_SLICE } else { LONG_SLICE };
        if used + slice > self.cpu_limit {
            Verdict::CpuLimit
        } else if self.room_asked.swap(false, Ordering::AcqRel) || slice >= may_take {
            Verdict::Yield
        } else {
            Verdict::Go
        }
    }

    /// Time on a guest thread, seen from within its future.
    pub(in crate::bot) fn cpu_time(&self) -> Duration {
        self.used() + self.slice()
    }

    pub(super) fn level(&self) -> Level {
        if self.is_stopping() {
            return Level::Stopping;
        }
        match self.used() {
            used if used <= NEW => Level::New,
            used if used <= FRESH => Level::Fresh,
            _ => Level::Hog,
        }
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Asks a running guest to make room at the next tick; `false` if it has been asked before.
    pub(super) fn ask_for_room(&self) -> bool {
        !self.room_asked.swap(true, Ordering::AcqRel)
    }

    pub(super) fn was_asked_for_room(&self) -> bool {
        self.room_asked.load(Ordering::Acquire)
    }

    pub(super) fn begin_turn(&self) {
        self.room_asked.store(false, Ordering::Release);
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.used_ns.load(Ordering::Acquire))
    }

    fn slice(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_nanos(self.slice_began_ns.load(Ordering::Acquire)))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Measures a future's polls and catches its panics.
pub(super) struct Measured<F> {
    future: Pin<Box<F>>,
    state: Arc<TaskState>,
}

impl<F> Measured<F> {
    pub(super) fn new(future: F, state: Arc<TaskState>) -> Self {
        Self { future: Box::pin(future), state }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> Arc<TaskState> {
        self.state.clone()
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let began = self.state.now_ns();
        self.state.slice_began_ns.store(began, Ordering::Release);
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx)));
        let used = self.state.now_ns().saturating_sub(began);
        self.state.used_ns.fetch_add(used, Ordering::AcqRel);
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// A running guest, for the one who waits for it. Dropping it ends the guest.
pub(in crate::bot) struct Guest<T> {
    task: Option<FallibleTask<Result<T, String>, Arc<TaskState>>>,
    state: Arc<TaskState>,
    queue: Arc<Queue>,
}

impl<T> Guest<T> {
    pub(super) fn new(
        task: FallibleTask<Result<T, String>, Arc<TaskState>>,
        state: Arc<TaskState>,
        queue: Arc<Queue>,
    ) -> Self {
        Self { task: Some(task), state, queue }
    }

    /// Waits for the end. `Err` says what went wrong on the host's side.
    pub(in crate::bot) async fn end(mut self) -> Result<T, String> {
        let Some(task) = self.task.as_mut() else { return Err("the guest was waited for twice".into()) };
        let ended = task.await;
        self.task = None;
        match ended {
            Some(result) => result.map_err(|panic| format!("the host failed while it ran the bot: {panic}")),
            None => Err("the host's guest threads are being stopped".into()),
        }
    }
}

impl<T> Drop for Guest<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.state.abandon();
            // Marks it as closed; its future is dropped at its next turn, which the nudge brings forward.
            drop(task);
            self.queue.nudge();
        }
    }
}
