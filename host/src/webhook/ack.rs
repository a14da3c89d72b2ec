//! Knowing when an acknowledgement has been written to the socket: no callback may be sent before.
//!
//! hyper does not say when an answer has left. So the answer's body arms a hold on its connection when hyper takes
//! the bytes, and the connection's I/O lets go of it at the first completed flush after a write that follows.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::network::AckHold;

/// The holds that wait for a flush of one connection. Cloned between the connection and its requests.
#[derive(Debug, Clone, Default)]
pub struct FlushWatch(Arc<Watch>);

#[derive(Debug, Default)]
struct Watch {
    /// Whether there is any, so that other connections pay one atomic read.
    armed: AtomicBool,
    holds: Mutex<Vec<(AckHold, bool)>>,
}

impl FlushWatch {
    fn arm(&self, hold: AckHold) {
        let mut holds = self.0.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.push((hold, false));
        self.0.armed.store(true, Ordering::Release);
    }

    /// Bytes went to the socket.
    pub fn written(&self) {
        if self.0.armed.load(Ordering::Acquire) {
            let mut holds = self.0.holds.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, written) in holds.iter_mut() {
                *written = true;
            }
        }
    }

    /// Everything written so far has been flushed.
    pub fn flushed(&self) {
        if self.0.armed.load(Ordering::Acquire) {
            let mut holds = self.0.holds.lock().unwrap_or_else(PoisonError::into_inner);
            for (hold, _) in holds.extract_if(.., |(_, written)| *written) {
                hold.sent();
            }
            self.0.armed.store(!holds.is_empty(), Ordering::Release);
        }
    }
}

/// The body of an acknowledgement.
pub(super) struct AckBody {
    data: Option<Bytes>,
    hold: Option<AckHold>,
    flush: Option<FlushWatch>,
}

impl AckBody {
    /// A body of these bytes that lets go of `hold` once they are on the wire.
    pub(super) fn body(data: &'static [u8], hold: Option<AckHold>, flush: Option<FlushWatch>) -> Body {
        Body::new(Self { data: Some(Bytes::from_static(data)), hold, flush })
    }
}

impl http_body::Body for AckBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = self.data.take();
        if data.is_some() {
            match (self.hold.take(), &self.flush) {
                (Some(hold), Some(flush)) => flush.arm(hold),
                // Not one of our connections: nobody can say more than this.
                (Some(hold), None) => hold.sent(),
                (None, _) => {}
            }
        }
        Poll::Ready(data.map(|d| Ok(Frame::data(d))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |d| d.len() as u64))
    }
}
