//! How a run stands and how it ends.

use serde::{Deserialize, Serialize};

/// The states of a run. `Pending → Running → Completed | Failed | TimedOut | Aborted`;
/// a pending run can also end as failed or timed out without having started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Admitted, waiting for its session's turn.
    Pending,
    /// The bot is at work.
    Running,
    /// The bot replied.
    Completed,
    /// The bot refused, trapped, hit a limit, or the host went down under it.
    Failed,
    /// The deadline came first.
    TimedOut,
    /// The server asked for the end.
    Aborted,
}

impl RunState {
    /// Whether nothing can follow.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// How the server hears of a run: settled by the answer to its `chat.send`, for the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The open response of the `chat.send` itself.
    Sse,
    /// `/bot/events`, in the form of protocol 1.0.
    CallbackV1,
    /// `/bot/events`, in the streaming form of protocol 2.0.
    CallbackV2,
}

/// Why a run failed, timed out or was aborted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A stable word: `rejected`, `unavailable`, `failed` (the bot's own), `trap`, `limit`, `timeout`, `aborted`,
    /// `restart`, `shutdown`, `detached`, `bot_unavailable`, `internal`.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
}

impl RunError {
    /// An error of its parts.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into() }
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The bot replied.
    Completed {
        /// The whole reply: it begins with what was streamed.
        text: String,
        /// Why the bot stopped, in its own words.
        stop_reason: Option<String>,
    },
    /// It failed.
    Failed {
        /// Why.
        error: RunError,
    },
    /// Its deadline came.
    TimedOut {
        /// Why, with the deadline.
        error: RunError,
    },
    /// The server aborted it.
    Aborted {
        /// For the `stopReason` on the wire, like `user_cancelled`.
        reason: String,
    },
}

impl Outcome {
    /// The state that a run with this end is in.
    #[must_use]
    pub fn state(&self) -> RunState {
        match self {
            Self::Completed { .. } => RunState::Completed,
            Self::Failed { .. } => RunState::Failed,
            Self::TimedOut { .. } => RunState::TimedOut,
            Self::Aborted { .. } => RunState::Aborted,
        }
    }
}
