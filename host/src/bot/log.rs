//! Where a bot's log lines go, and how many of them.

use std::sync::Arc;

/// What a line counts besides its text, so that empty lines are not free.
const LINE_COST: usize = 16;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For the one who looks for a mistake.
    Debug,
    /// Worth to know.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// Its name in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Where in the bot a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// `logging.log`
    Log,
    /// A line on stdout.
    Stdout,
    /// A line on stderr.
    Stderr,
    /// The host's own note about this call, like how much was dropped.
    Host,
}

impl LogSource {
    /// Its name in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Host => "host",
        }
    }
}

/// One line of a bot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// How much it matters.
    pub level: LogLevel,
    /// Where it comes from.
    pub source: LogSource,
    /// The id of the request that the bot worked on.
    pub request: &'a str,
    /// The text, untrusted: any characters, several lines too.
    pub text: &'a str,
}

/// Takes what a bot logs. Must not block.
pub trait BotLog: Send + Sync {
    /// One line.
    fn line(&self, line: LogLine<'_>);
}

/// Counts one call's lines and drops what is over `limits.log_kb`.
pub(super) struct LogMeter {
    log: Arc<dyn BotLog>,
    request: String,
    limit: usize,
    left: usize,
    dropped_lines: u64,
    dropped_bytes: u64,
}

impl LogMeter {
    pub(super) fn new(log: Arc<dyn BotLog>, request: String, limit: usize) -> Self {
        Self { log, request, limit, left: limit, dropped_lines: 0, dropped_bytes: 0 }
    }

    pub(super) fn line(&mut self, level: LogLevel, source: LogSource, text: &str) {
        match self.left.checked_sub(text.len().saturating_add(LINE_COST)) {
            // Once something was dropped the rest is too: a log with holes misleads.
            Some(left) if self.dropped_lines == 0 => {
                self.left = left;
                self.log.line(LogLine { level, source, request: &self.request, text });
            }
            _ => {
                self.dropped_lines += 1;
                self.dropped_bytes += text.len() as u64;
            }
        }
    }

    /// Says what was dropped.
    pub(super) fn finish(&mut self) {
        if self.dropped_lines > 0 {
            let text = format!(
                "{} more lines ({} bytes) were dropped: a call may log {} bytes, set by `limits.log_kb`.",
                self.dropped_lines, self.dropped_bytes, self.limit
            );
            self.log.line(LogLine {
                level: LogLevel::Warn,
                source: LogSource::Host,
                request: &self.request,
                text: &text,
            });
            self.dropped_lines = 0;
        }
    }
}
