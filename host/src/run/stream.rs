//! The body of a streaming answer: a run's events so far, then live, and a heartbeat while nothing comes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use super::live::ReaderGuard;
use super::log::{EventLog, Progress};
use crate::wire::sse::HEARTBEAT;

/// The longest silence on an open stream. The server's oldest build gives up after 120 s without a byte.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// Frames are sent together up to this many bytes.
const CHUNK: usize = 64 * 1024;

type Changed = Pin<Box<dyn Future<Output = (bool, watch::Receiver<Progress>)> + Send>>;

/// A stream of one run's events for one reader.
pub struct EventStream {
    log: Arc<EventLog>,
    next: usize,
    changed: Changed,
    heartbeat: Pin<Box<Sleep>>,
    ended: bool,
    /// Tells the run that somebody reads; absent for a replay of an ended run.
    reader: Option<ReaderGuard>,
    asked: bool,
}

impl EventStream {
    /// A stream from the first event on.
    pub fn new(log: Arc<EventLog>, reader: Option<ReaderGuard>) -> Self {
        let changed = wait(log.watch());
        Self { log, next: 0, changed, heartbeat: Box::pin(sleep(HEARTBEAT_EVERY)), ended: false, reader, asked: false }
    }
}

fn wait(mut receiver: watch::Receiver<Progress>) -> Changed {
    Box::pin(async move {
        let open = receiver.changed().await.is_ok();
        (open, receiver)
    })
}

impl Stream for EventStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.asked {
            self.asked = true;
            if let Some(reader) = &self.reader {
                reader.set_opened();
            }
        }
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let (mut frames, progress) = self.log.read(self.next, CHUNK);
            self.next += frames.len();
            if progress.ended && self.next >= progress.frames {
                self.ended = true;
            }
            if !frames.is_empty() {
                self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT_EVERY);
                let chunk = if frames.len() == 1 {
                    frames.remove(0)
                } else {
                    let mut all = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                    for frame in &frames {
                        all.extend_from_slice(frame);
                    }
                    all.freeze()
                };
                return Poll::Ready(Some(chunk));
            }
            match self.changed.as_mut().poll(cx) {
                Poll::Ready((true, receiver)) => {
                    self.changed = wait(receiver);
                    continue;
                }
                // The log is gone without an end: nothing can follow.
                Poll::Ready((false, _)) => self.ended = true,
                Poll::Pending => {
                    if self.heartbeat.as_mut().poll(cx).is_ready() {
                        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT_EVERY);
                        return Poll::Ready(Some(Bytes::from_static(HEARTBEAT)));
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}
