//! WASI 0.2 as a bot sees it: clocks, random numbers, stdout and stderr, and nothing of the machine.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, async_trait};

use super::log::{LogLevel, LogMeter, LogSource};

/// How much of stderr's end is kept for the run's record.
const TAIL: usize = 4 * 1024;

/// A line longer than this is logged in pieces.
const LINE: usize = 8 * 1024;

/// How much a guest writes at once.
const PERMIT: usize = 64 * 1024;

/// The most random bytes in one call: the host allocates them before the guest takes them.
const RANDOM: u64 = 1024 * 1024;

/// A context without files, sockets, environment, arguments and stdin.
pub(super) fn context(stdout: Capture, stderr: Capture) -> WasiCtx {
    let mut builder = WasiCtx::builder();
    // No environment, argument, directory or stdin is what a new builder has. What it allows, or might allow in
    // another version, is said here.
    builder
        .stdout(stdout)
        .stderr(stderr)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .max_random_size(RANDOM);
    builder.build()
}

/// Takes stdout or stderr, line by line to the bot's log, and keeps the end.
#[derive(Clone)]
pub(super) struct Capture(Arc<Mutex<Inner>>);

struct Inner {
    source: LogSource,
    log: Arc<Mutex<LogMeter>>,
    line: Vec<u8>,
    tail: Vec<u8>,
}

impl Capture {
    pub(super) fn new(source: LogSource, log: Arc<Mutex<LogMeter>>) -> Self {
        Self(Arc::new(Mutex::new(Inner { source, log, line: Vec::new(), tail: Vec::new() })))
    }

    /// Logs a last line that has no end.
    pub(super) fn finish(&self) {
        self.lock().end_line();
    }

    /// The end of what was written.
    pub(super) fn tail(&self) -> String {
        let inner = self.lock();
        let from = inner.tail.len().saturating_sub(TAIL);
        String::from_utf8_lossy(inner.tail.get(from..).unwrap_or_default()).into_owned()
    }

    fn put(&self, bytes: &[u8]) {
        let mut inner = self.lock();
        inner.keep(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            for part in text.chunks(LINE) {
                if inner.line.len() + part.len() > LINE {
                    inner.end_line();
                }
                inner.line.extend_from_slice(part);
            }
            if ends {
                inner.end_line();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default());
        // Cut now and then, not at every write.
        if self.tail.len() > 4 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let level = if self.source == LogSource::Stderr { LogLevel::Warn } else { LogLevel::Info };
        let text = String::from_utf8_lossy(&self.line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).line(level, self.source, text);
        self.line.clear();
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

impl OutputStream for Capture {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.put(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl AsyncWrite for Capture {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.put(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::bot::log::{BotLog, LogLine};

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl BotLog for Lines {
        fn line(&self, line: LogLine<'_>) {
            self.0.lock().unwrap().push(line.text.to_owned());
        }
    }

    fn capture(limit: usize) -> (Capture, Arc<Lines>, Arc<Mutex<LogMeter>>) {
        let lines = Arc::new(Lines::default());
        let meter = Arc::new(Mutex::new(LogMeter::new(lines.clone(), "r".into(), limit)));
        (Capture::new(LogSource::Stderr, meter.clone()), lines, meter)
    }

    #[test]
    fn lines_come_whole_however_they_are_written() {
        let (capture, lines, _) = capture(1000);
        for piece in ["on", "e\r\ntwo\n\nth", "ree"] {
            capture.put(piece.as_bytes());
        }
        assert_eq!(*lines.0.lock().unwrap(), ["one", "two"]);
        capture.finish();
        assert_eq!(*lines.0.lock().unwrap(), ["one", "two", "three"]);
        assert_eq!(capture.tail(), "one\r\ntwo\n\nthree");
    }

    #[test]
    fn memory_is_bounded_and_the_end_is_kept() {
        let (capture, lines, meter) = capture(20_000);
        for _ in 0..100 {
            capture.put(&[b'x'; 10_000]);
        }
        capture.put(b"the end");
        capture.finish();
        meter.lock().unwrap().finish();
        assert!(capture.0.lock().unwrap().tail.len() <= 5 * TAIL);
        assert_eq!(capture.tail().len(), TAIL);
        assert!(capture.tail().ends_with("the end"));
        let lines = lines.0.lock().unwrap();
        assert!(lines.iter().all(|line| line.len() <= LINE));
        assert!(lines.last().unwrap().contains("limits.log_kb"), "{:?}", lines.last());
        assert!(lines.iter().map(String::len).sum::<usize>() < 20_500);
    }
}
