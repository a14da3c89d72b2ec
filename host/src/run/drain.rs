//! Stopping: runs may finish for a while, then every open stream gets its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::deadline::stopped;
use super::{LiveRun, Runs};
use crate::bot::CancelCause;
use crate::wire::Channel;

/// How long the bots have to be gone once they are told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl Runs {
    /// Waits until nothing is to do, at most `time`; then stops what is at work, ends what waits for a stream, and
    /// leaves on disk what waits for a callback: it runs after the next start.
    pub async fn drain(&self, time: Duration) {
        let inner = &self.0;
        let until = Instant::now() + time;
        while inner.sessions.busy() > 0 {
            let idle = inner.idle.notified();
            if inner.sessions.busy() == 0 || timeout_at(until, idle).await.is_err() {
                break;
            }
        }
        inner.stopping.store(true, Ordering::Release);
        let open: Vec<Arc<LiveRun>> = inner.live().values().filter(|r| !r.is_ended()).cloned().collect();
        // A run that waits for its turn only leaves the queue by this: its record stays PENDING.
        for run in &open {
            run.cancel.cancel(CancelCause::Shutdown);
        }
        inner.bots.nudge();
        for run in &open {
            if !run.is_started() && run.channel == Channel::Sse {
                inner.end_run(run, stopped(CancelCause::Shutdown, run), Vec::new(), None).await;
            }
        }
        let quiet = async {
            while inner.sessions.busy() > 0 {
                let idle = inner.idle.notified();
                if inner.sessions.busy() == 0 {
                    break;
                }
                let _ = timeout(Duration::from_millis(100), idle).await;
            }
        };
        if timeout(STOP_WITHIN, quiet).await.is_err() {
            tracing::error!(
                sessions = inner.sessions.busy(),
                "some bots did not stop in time; their runs end at the next start"
            );
        }
    }
}
