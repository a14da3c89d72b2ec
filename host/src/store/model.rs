//! The records and the operations' arguments and answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::wire::callback::CallbackBody;
use crate::wire::message::RawMessage;
use crate::wire::{BotRef, Channel, Fingerprint, Outcome, RunState, SessionKey};

/// A run as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// The `id` of its `chat.send`.
    pub id: String,
    /// Bot and session.
    pub key: SessionKey,
    /// `bcn_group_id`.
    pub group: String,
    /// `to_bot.tags`.
    pub tags: Vec<String>,
    /// `extensions`, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Box<RawValue>>,
    /// How the server hears of it.
    pub channel: Channel,
    /// What a repeat must match.
    pub fingerprint: Fingerprint,
    /// When it was admitted.
    pub admitted_at: u64,
    /// When it is ended at the latest.
    pub deadline: u64,
    /// When its last attempt began.
    pub started_at: Option<u64>,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// How often it began: more than once only for bots that allow a rerun after a crash.
    pub attempts: u32,
    /// Where its message stands in the transcript.
    pub message_at: u64,
    /// Where its reply stands in the transcript, if there is one.
    pub reply_at: Option<u64>,
    /// Where it stands.
    pub state: RunState,
    /// How it ended. The text of a completed run is in the transcript and empty here; [`crate::store::Store::run`]
    /// fills it in.
    pub outcome: Option<Outcome>,
    /// The content hash of the bot's build that served it.
    #[serde(default)]
    pub bot_version: Option<String>,
}

/// A message of a transcript.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Its place: Unix milliseconds of its arrival, made strictly rising within the session.
    pub at: u64,
    /// The id of the request that brought it; for a reply, the run's id followed by `:reply`.
    pub id: String,
    /// What it is.
    pub kind: EntryKind,
    /// The message.
    pub message: RawMessage,
    /// `bcn_group_id` of an injected message. A sent one has it in its run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `to_bot.tags`, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// `extensions`, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Box<RawValue>>,
}

/// What a transcript's message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// It came by `chat.send`.
    Sent,
    /// It came by `chat.inject`.
    Injected,
    /// It is a bot's reply.
    Reply,
}

/// A `chat.send` to be admitted.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Its `id`, the run's.
    pub id: String,
    /// Bot and session.
    pub key: SessionKey,
    /// `bcn_group_id`.
    pub group: String,
    /// `to_bot.tags`.
    pub tags: Vec<String>,
    /// `extensions`.
    pub extensions: Option<Box<RawValue>>,
    /// How the server will hear of it.
    pub channel: Channel,
    /// What a repeat must match.
    pub fingerprint: Fingerprint,
    /// The message.
    pub message: RawMessage,
    /// Now.
    pub now: u64,
    /// The run's deadline.
    pub deadline: u64,
    /// The most PENDING runs a session may have.
    pub max_pending_session: usize,
    /// The most PENDING runs there may be in all.
    pub max_pending_total: usize,
}

/// What became of an admission.
#[derive(Debug, Clone)]
pub enum Admitted {
    /// A new run, PENDING.
    New(Box<RunRecord>),
    /// The same request was admitted before; the run as it stands.
    Repeat(Box<RunRecord>),
    /// The id was used with another body or method; the sentence says which.
    Conflict(String),
    /// A bound of PENDING runs is reached; the sentence says which. Nothing was kept.
    Busy(String),
}

/// A `chat.inject` to be kept.
#[derive(Debug, Clone)]
pub struct Injection {
    /// Its `id`.
    pub id: String,
    /// Bot and session.
    pub key: SessionKey,
    /// What a repeat must match.
    pub fingerprint: Fingerprint,
    /// The message.
    pub message: RawMessage,
    /// `bcn_group_id`.
    pub group: String,
    /// `to_bot.tags`.
    pub tags: Vec<String>,
    /// `extensions`.
    pub extensions: Option<Box<RawValue>>,
    /// Now.
    pub now: u64,
    /// Whether the bot's `inject` hook is owed.
    pub owe_hook: bool,
}

/// What became of an injection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injected {
    /// Kept, at this place of the transcript.
    New {
        /// Its place.
        at: u64,
    },
    /// The same request was kept before.
    Repeat,
    /// The id was used with another body or method.
    Conflict(String),
}

/// What became of a start.
#[derive(Debug, Clone)]
pub enum Start {
    /// RUNNING now.
    Started {
        /// The run.
        run: Box<RunRecord>,
        /// Its message.
        message: Box<Entry>,
    },
    /// It is not PENDING (any more); its record.
    NotPending(Box<RunRecord>),
    /// There is no such run.
    Missing,
}

/// One write of a bot's state in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    /// The key.
    pub key: String,
    /// The new value; `None` deletes.
    pub value: Option<Vec<u8>>,
}

/// The end of a run.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The run.
    pub run_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The bot's state writes: kept for a completed run, dropped for any other.
    pub writes: Vec<StateWrite>,
    /// The build that served it.
    pub bot_version: Option<String>,
    /// Now.
    pub now: u64,
}

/// What became of a finish.
#[derive(Debug, Clone)]
pub enum Finished {
    /// This end is the run's end.
    Won(Box<RunRecord>),
    /// Another end came first: this is it.
    Lost(Box<RunRecord>),
    /// There is no such run.
    Missing,
}

/// A `chat.abort`.
#[derive(Debug, Clone)]
pub struct Abort {
    /// Its `id`.
    pub id: String,
    /// What a repeat must match.
    pub fingerprint: Fingerprint,
    /// Bot and session.
    pub key: SessionKey,
    /// For the `stopReason`.
    pub reason: String,
    /// Now.
    pub now: u64,
}

/// The answer to a `chat.abort`, kept under its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortAnswer {
    /// These were RUNNING and are ABORTED.
    Aborted(Vec<String>),
    /// Nothing was RUNNING, and either something is PENDING or there is no record of any run.
    Idle,
    /// All runs of the session have ended.
    Terminated,
    /// The id was used with another body or method. Never kept.
    Conflict(String),
}

/// Which page of a transcript.
#[derive(Debug, Clone)]
pub struct HistoryQuery {
    /// Bot and session.
    pub key: SessionKey,
    /// Only what stands before this place.
    pub before: Option<u64>,
    /// Only what stands after this place.
    pub after: Option<u64>,
    /// The most messages.
    pub limit: usize,
    /// The most bytes of messages, but always one message.
    pub max_bytes: usize,
}

/// A page of a transcript. With `after`, the oldest first beyond it; else the newest before `before`.
/// Entries are in rising order of place either way.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// The messages, oldest first.
    pub entries: Vec<Entry>,
    /// Whether there are more in the direction of paging.
    pub has_more: bool,
}

/// What a bot may see: everything before its own message, and what was injected or replied since; never the
/// messages that wait behind it.
#[derive(Debug, Clone)]
pub struct ContextQuery {
    /// Bot and session.
    pub key: SessionKey,
    /// The place of the message the bot works on.
    pub message_at: u64,
    /// The most messages, the newest being kept.
    pub limit: usize,
    /// The most bytes of messages, the newest being kept.
    pub max_bytes: usize,
}

/// A callback on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// The run it tells of.
    pub run_id: String,
    /// The bot whose token it is sent with.
    pub bot: BotRef,
    /// The run's channel: it gives the protocol version.
    pub channel: Channel,
    /// The POSTs, in order.
    pub bodies: Vec<CallbackBody>,
    /// How many of them the server has taken.
    pub done: usize,
    /// When it was put in.
    pub created_at: u64,
    /// When trying ends: the run's deadline and an hour.
    pub give_up_at: u64,
    /// How often the body at `done` was tried.
    pub attempts: u32,
    /// When it is due next.
    pub due_at: u64,
    /// What the last try met.
    pub last_error: Option<String>,
    /// Set when it was given up: it stays listed and is not tried again.
    pub dead: bool,
}

/// What is due.
#[derive(Debug, Clone)]
pub struct OutboxBatch {
    /// The entries, leased.
    pub entries: Vec<OutboxEntry>,
    /// When the next one becomes due, if there is any.
    pub next_due: Option<u64>,
}

/// What became of a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The server has all of it (or had the run's end already): the entry goes.
    Delivered,
    /// The server has taken one more body; the next is due at once.
    Progress {
        /// How many it has now.
        done: usize,
    },
    /// To be tried again.
    Retry {
        /// When.
        at: u64,
        /// What was met.
        error: String,
    },
    /// Given up.
    Dead {
        /// What was met.
        error: String,
    },
}

/// What is to be done after a start.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// PENDING runs, in order of admission.
    pub pending: Vec<RunRecord>,
    /// Owed `inject` hooks, in order.
    pub hooks: Vec<(SessionKey, u64)>,
    /// How many RUNNING runs were ended as failed.
    pub failed: usize,
    /// How many RUNNING runs were made PENDING again.
    pub rerun: usize,
    /// How many PENDING runs were ended because their stream is gone.
    pub orphaned: usize,
}

/// How long things are kept, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Idempotency ids, and the records of ended runs.
    pub ids_ms: u64,
}

/// Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStats {
    /// PENDING runs.
    pub pending: u64,
    /// RUNNING runs.
    pub running: u64,
    /// Callbacks on their way.
    pub outbox: u64,
    /// Callbacks given up.
    pub dead: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}
