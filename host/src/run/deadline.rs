//! A run's deadline, and a stream that nobody reads: what ends a run without the bot or the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::Inner;
use super::live::LiveRun;
use crate::bot::CancelCause;
use crate::clock::now_ms;
use crate::wire::{Channel, Outcome, RunError};

/// Bytes of ended runs' events that are kept in memory.
const MAX_ENDED_BYTES: usize = 64 * 1024 * 1024;

/// Watches a run until some time after its end, then takes it out of memory.
pub(super) fn watch(inner: &Arc<Inner>, run: &Arc<LiveRun>) {
    let (inner, run) = (inner.clone(), run.clone());
    tokio::spawn(async move {
        if let Some(cause) = until_cause(&inner, &run).await {
            run.cancel.cancel(cause);
            inner.bots.nudge();
            if !run.is_started() {
                // It waits in a queue, maybe behind a long run: its end does not wait with it.
                inner.end_run(&run, stopped(cause, &run), Vec::new(), None).await;
            }
            until_ended(&run).await;
        }
        inner.keep_ended(&run).await;
        inner.live().remove(&run.id);
    });
}

impl Inner {
    /// Keeps an ended run's events for a re-attach, as long as there is room for them. A repeat that comes later is
    /// answered with the run's end out of the store.
    async fn keep_ended(&self, run: &LiveRun) {
        let bytes = run.log.bytes();
        let all = self.ended_bytes.fetch_add(bytes, Ordering::AcqRel);
        if all + bytes <= MAX_ENDED_BYTES {
            sleep(self.options.keep_ended).await;
        }
        self.ended_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Waits until something is to stop the run; `None` if it ended before.
async fn until_cause(inner: &Inner, run: &LiveRun) -> Option<CancelCause> {
    let deadline = sleep(Duration::from_millis(run.deadline.saturating_sub(now_ms())));
    tokio::pin!(deadline);
    let mut seen_reader = false;
    loop {
        let attention = run.attention.notified();
        tokio::pin!(attention);
        attention.as_mut().enable();
        if run.is_ended() {
            return None;
        }
        seen_reader |= run.readers() > 0;
        // Before the first reader has come there is none to miss: the answer is only being made.
        let nobody = run.channel == Channel::Sse && run.readers() == 0;
        let grace = if seen_reader {
            inner.options.detach_grace
        } else {
            inner.options.detach_grace.max(Duration::from_secs(5))
        };
        tokio::select! {
            () = &mut deadline => return Some(CancelCause::Deadline),
            () = &mut attention => {}
            () = sleep(grace), if nobody => {
                if run.readers() == 0 {
                    return Some(CancelCause::Detached);
                }
            }
        }
    }
}

async fn until_ended(run: &LiveRun) {
    loop {
        let attention = run.attention.notified();
        tokio::pin!(attention);
        attention.as_mut().enable();
        if run.is_ended() {
            return;
        }
        attention.await;
    }
}

/// The end of a run that was stopped from outside.
pub(super) fn stopped(cause: CancelCause, run: &LiveRun) -> Outcome {
    match cause {
        CancelCause::Aborted => Outcome::Aborted { reason: "user_cancelled".into() },
        CancelCause::Deadline => {
            let late = if run.is_started() { "The bot had not finished" } else { "The run's turn had not come" };
            Outcome::TimedOut { error: RunError::new("timeout", format!("{late} when the run's deadline came.")) }
        }
        CancelCause::Shutdown => Outcome::Failed {
            error: RunError::new("shutdown", "The bot host was shut down before the bot had finished."),
        },
        CancelCause::Detached => Outcome::Failed {
            error: RunError::new(
                "detached",
                "The stream was closed and nobody came back for it, so the run was stopped.",
            ),
        },
    }
}
