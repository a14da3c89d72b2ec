//! One call of a bot: what goes in and what comes out.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::store::StateWrite;
use crate::wire::{Event, Message};

/// Which function of the bot's `chat` interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// `send`
    Send,
    /// `inject`
    Inject,
}

/// `types.request` of the WIT contract.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The business id.
    pub id: String,
    /// The session.
    pub session: String,
    /// The group.
    pub group: String,
    /// The tags.
    pub tags: Vec<String>,
    /// When the call is ended, Unix milliseconds.
    pub deadline: u64,
    /// `extensions`, one JSON object.
    pub extensions: Option<String>,
}

/// A message with its place in time.
#[derive(Debug, Clone)]
pub struct PastMessage {
    /// The message.
    pub message: Message,
    /// Unix milliseconds.
    pub timestamp: u64,
}

/// A call to be made.
pub struct Call {
    /// Which function.
    pub export: Export,
    /// The request.
    pub request: RequestInfo,
    /// The message.
    pub message: PastMessage,
    /// The session's transcript and state.
    pub conversation: Arc<dyn Conversation>,
    /// Where progress goes.
    pub sink: Arc<dyn EventSink>,
    /// How it is stopped from outside.
    pub cancel: CancelToken,
}

/// Why a read of the session failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ConversationError(pub String);

/// A future of a [`Conversation`].
pub type ConversationFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ConversationError>> + Send + 'a>>;

/// What a bot can read of its session while it works. Its writes are collected by the call and committed by the
/// caller, so these reads show the state as of the last commit.
pub trait Conversation: Send + Sync {
    /// The newest `limit` messages before the one at hand, oldest first, `max_bytes` of JSON at most.
    fn history(&self, limit: usize, max_bytes: usize) -> ConversationFuture<'_, Vec<PastMessage>>;
    /// A value of the bot's state.
    fn get(&self, key: String) -> ConversationFuture<'_, Option<Vec<u8>>>;
    /// The keys that begin with `prefix`, in byte order, each with its value's length in bytes.
    fn keys(&self, prefix: String) -> ConversationFuture<'_, Vec<(String, u64)>>;
}

/// Takes what a bot says while it works. Must not block.
pub trait EventSink: Send + Sync {
    /// One event. Never [`Event::Started`], [`Event::Ended`] or [`Event::Terminal`]: those are the caller's.
    fn emit(&self, event: Event);
}

/// Why a call is stopped from outside. The first cause counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CancelCause {
    /// `chat.abort`.
    Aborted = 1,
    /// The run's deadline.
    Deadline = 2,
    /// The host is going down.
    Shutdown = 3,
    /// Nobody reads the stream any more.
    Detached = 4,
}

/// Stops a call. Cloned between the run and its guest.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    cause: AtomicU8,
    at: OnceLock<Instant>,
    notify: Notify,
}

impl CancelToken {
    /// Asks for the end. Only the first cause is kept; `true` if this was it.
    /// The caller then tells the guest threads by `Guests::nudge`.
    pub fn cancel(&self, cause: CancelCause) -> bool {
        self.0.at.get_or_init(Instant::now);
        let first = self.0.cause.compare_exchange(0, cause as u8, Ordering::AcqRel, Ordering::Acquire).is_ok();
        self.0.notify.notify_waiters();
        first
    }

    /// The cause, once there is one.
    #[must_use]
    pub fn cause(&self) -> Option<CancelCause> {
        match self.0.cause.load(Ordering::Acquire) {
            1 => Some(CancelCause::Aborted),
            2 => Some(CancelCause::Deadline),
            3 => Some(CancelCause::Shutdown),
            4 => Some(CancelCause::Detached),
            _ => None,
        }
    }

    /// When the end was first asked for.
    #[must_use]
    pub fn cancelled_at(&self) -> Option<Instant> {
        self.cause().and_then(|_| self.0.at.get().copied())
    }

    /// Waits for a cause.
    pub async fn cancelled(&self) -> CancelCause {
        loop {
            let waiter = self.0.notify.notified();
            tokio::pin!(waiter);
            // Registered before the look, so that a cancel in between is not missed.
            waiter.as_mut().enable();
            if let Some(cause) = self.cause() {
                return cause;
            }
            waiter.await;
        }
    }
}

/// What a bot may use, per call. All are on by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one instance, in bytes, all its memories together.
    pub memory_bytes: usize,
    /// Elements of all tables of one instance together.
    pub table_elements: usize,
    /// Time on a guest thread.
    pub cpu_time: Duration,
    /// Time of the `inject` hook, from start to end.
    pub inject_time: Duration,
    /// Bytes of reply and progress together.
    pub output_bytes: usize,
    /// Bytes of one session's state, keys and values together.
    pub state_bytes: usize,
    /// Keys of one session's state.
    pub state_keys: usize,
    /// Bytes of one call's results from the host, like a history page, and of arguments to the host.
    pub host_data_bytes: usize,
    /// Bytes that one call may log, stderr and stdout included; the rest is counted and dropped.
    pub log_bytes: usize,
    /// Calls of this bot that run at once.
    pub max_concurrent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            memory_bytes: 256 * MIB,
            table_elements: 100_000,
            cpu_time: Duration::from_secs(300),
            inject_time: Duration::from_secs(5),
            output_bytes: 32 * MIB,
            state_bytes: MIB,
            state_keys: 1_000,
            host_data_bytes: 32 * MIB,
            log_bytes: 256 * 1024,
            max_concurrent: 256,
        }
    }
}

/// A bot's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text as the bot returned it.
    pub text: String,
    /// Its stop reason.
    pub stop_reason: Option<String>,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The bot's own `rejected`.
    Rejected(String),
    /// The bot's own `unavailable`.
    Unavailable(String),
    /// The bot's own `failed`.
    Failed(String),
    /// It trapped: what it did, in a sentence. Backtrace and last words are in the report.
    Trap(String),
    /// It went over a limit; the sentence names it, its value and its setting.
    Limit(String),
    /// It was stopped from outside.
    Cancelled(CancelCause),
    /// The host could not do its part.
    Internal(String),
}

/// What a call used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallReport {
    /// From start to end.
    pub wall: Duration,
    /// On a guest thread.
    pub cpu: Duration,
    /// Making the instance.
    pub instantiate: Duration,
    /// The most linear memory, in bytes.
    pub memory_peak: usize,
    /// The end of stderr, at most 4 KiB, as it came (bytes that are no UTF-8 replaced).
    pub stderr_tail: String,
    /// Where in the guest a trap was, at most 4 KiB.
    pub backtrace: Option<String>,
    /// From the cancel to the guest being gone, for a cancelled call.
    pub stopped_after: Option<Duration>,
}

/// The end of a call.
#[derive(Debug, Clone)]
pub struct CallEnd {
    /// Reply or error. An inject that went well has an empty reply.
    pub result: Result<Reply, CallError>,
    /// What it wrote to its state, the last write of each key, in key order.
    pub writes: Vec<StateWrite>,
    /// What it used.
    pub report: CallReport,
}

impl CallEnd {
    /// The end of a call that the host could not even begin.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self { result: Err(CallError::Internal(message.into())), writes: Vec::new(), report: CallReport::default() }
    }
}

impl CallError {
    /// The stable word for `errorKind` and the run's record.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "rejected",
            Self::Unavailable(_) => "unavailable",
            Self::Failed(_) => "failed",
            Self::Trap(_) => "trap",
            Self::Limit(_) => "limit",
            Self::Cancelled(CancelCause::Aborted) => "aborted",
            Self::Cancelled(CancelCause::Deadline) => "timeout",
            Self::Cancelled(CancelCause::Shutdown) => "shutdown",
            Self::Cancelled(CancelCause::Detached) => "detached",
            Self::Internal(_) => "internal",
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rejected(m)
            | Self::Unavailable(m)
            | Self::Failed(m)
            | Self::Trap(m)
            | Self::Limit(m)
            | Self::Internal(m) => f.write_str(m),
            Self::Cancelled(CancelCause::Aborted) => f.write_str("The run was aborted."),
            Self::Cancelled(CancelCause::Deadline) => f.write_str("The deadline came."),
            Self::Cancelled(CancelCause::Shutdown) => f.write_str("The host was shut down."),
            Self::Cancelled(CancelCause::Detached) => f.write_str("Nobody read the stream any more."),
        }
    }
}
