//! The socket, with an ear for what has been written and flushed, and no patience for a client that takes nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::webhook::FlushWatch;

/// A client whose socket takes no byte for this long is given up. Its runs go on: they have a grace of their own.
const STALLED: Duration = Duration::from_secs(60);

/// A TCP stream that tells its connection's [`FlushWatch`] what happens.
pub(super) struct WatchedIo {
    stream: TcpStream,
    flush: FlushWatch,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WatchedIo {
    pub(super) fn new(stream: TcpStream, flush: FlushWatch) -> Self {
        Self { stream, flush, stalled: None }
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
}

impl AsyncRead for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.flush.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
