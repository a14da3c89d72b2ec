//! The socket, with an ear for what has been written and flushed, and no patience for a client that takes nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::own;
use crate::webhook::{Answering, FlushWatch};

/// A client whose socket takes no byte for this long is given up. Its runs go on: they have a grace of their own.
const STALLED: Duration = Duration::from_secs(60);

/// A TCP stream that tells its connection's [`FlushWatch`] what happens, and puts an envelope into hyper's refusals.
pub(super) struct WatchedIo {
    stream: TcpStream,
    flush: FlushWatch,
    answering: Answering,
    /// The client has sent its last byte, and hyper has had the time to begin with all it sent.
    ended: bool,
    /// What is written instead of what hyper wrote.
    instead: Bytes,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WatchedIo {
    pub(super) fn new(stream: TcpStream, flush: FlushWatch, answering: Answering) -> Self {
        Self { stream, flush, answering, ended: false, instead: Bytes::new(), stalled: None }
    }

    fn note(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.stalled = None;
                if matches!(written, Ok(n) if n > 0) {
                    self.flush.written();
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no more bytes")))
            }
        }
    }

    /// Writes what stands in for a refusal of hyper's.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &self.instead);
            match ready!(self.note(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.instead.advance(n),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if read.is_ok() && buf.filled().len() == before && buf.remaining() > 0 {
            if !self.ended {
                // The end may come with a request that nobody has looked at yet: only then is it known to be under way.
                self.ended = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.answering.poll_over(cx));
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(cx))?;
        if let Some((length, instead)) = own::instead_of(bufs) {
            self.instead = instead;
            return Poll::Ready(Ok(length));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.flush.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
