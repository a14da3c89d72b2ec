//! Keeping a connection open for an answer that is still to come.
//!
//! A client may close its sending side after its request and wait for the answer (`nc -N`, some proxies). hyper takes
//! that for a client that has gone, and drops the request. So the connection's I/O does not pass the end on while an
//! answer other than a stream is under way; of a stream, the end is passed on at once, so that its run can be ended.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The answers under way on one connection, and whether its client is known. Cloned between the connection and its
/// requests.
#[derive(Debug, Clone, Default)]
pub struct Answering(Arc<State>);

#[derive(Debug, Default)]
struct State {
    answers: AtomicUsize,
    known: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Answering {
    /// An answer is under way until the guard is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.answers.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.0.clone())
    }

    /// The client has shown a valid token.
    pub(super) fn is_known_now(&self) {
        self.0.known.store(true, Ordering::Release);
    }

    /// Whether the client has shown a valid token.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.known.load(Ordering::Acquire)
    }

    /// Whether the end of what the client sends can be passed on. If not, the task is woken when it can.
    pub fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        *self.0.reader() = Some(cx.waker().clone());
        if self.0.answers.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl State {
    fn reader(&self) -> MutexGuard<'_, Option<Waker>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lives as long as an answer is under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<State>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.answers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let reader = self.0.reader().take();
            if let Some(reader) = reader {
                reader.wake();
            }
        }
    }
}

/// Keeps `guard` until hyper has taken all of the answer's body.
pub(crate) fn keep_until_taken<G: Send + Unpin + 'static>(guard: G, response: Response) -> Response {
    response.map(|body| Body::new(Guarded { body, _guard: guard }))
}

/// A body that hyper drops when it has taken all of it.
struct Guarded<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin> http_body::Body for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
