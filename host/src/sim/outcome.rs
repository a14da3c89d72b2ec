//! How a run ended, as the server sees it.

use std::fmt;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The bot replied.
    Final {
        /// The whole reply, put together as the server does.
        text: String,
        /// `stopReason`.
        stop_reason: Option<String>,
    },
    /// The run failed.
    Error {
        /// `errorMessage`, or the text of the message.
        message: String,
        /// `errorKind`.
        kind: Option<String>,
    },
    /// The run was aborted.
    Aborted {
        /// `stopReason`; absent as long as only the answer to `chat.abort` has told of it.
        stop_reason: Option<String>,
    },
    /// The Provider said nothing, so the server made up an error.
    Synthesized {
        /// Why, as a sentence.
        reason: String,
    },
}

impl Outcome {
    /// Whether the Provider itself told of this end.
    #[must_use]
    pub fn is_told(&self) -> bool {
        !matches!(self, Self::Synthesized { .. })
    }

    /// The reply, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Final { text, .. } => Some(text),
            _ => None,
        }
    }

    /// `errorKind`, if the run failed with one.
    #[must_use]
    pub fn error_kind(&self) -> Option<&str> {
        match self {
            Self::Error { kind, .. } => kind.as_deref(),
            _ => None,
        }
    }

    /// Whether two tellings are of the same end. The legacy callback has no room for kinds and reasons, so these
    /// count only where both have them.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        match (self, other) {
            (Self::Final { text: a, stop_reason: x }, Self::Final { text: b, stop_reason: y }) => a == b && same(x, y),
            (Self::Error { message: a, kind: x }, Self::Error { message: b, kind: y }) => a == b && same(x, y),
            (Self::Aborted { stop_reason: x }, Self::Aborted { stop_reason: y }) => same(x, y),
            (Self::Synthesized { .. }, Self::Synthesized { .. }) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final { text, .. } => write!(f, "final with {} bytes of text", text.len()),
            Self::Error { message, kind } => write!(f, "error {:?}: {message:?}", kind.as_deref().unwrap_or("")),
            Self::Aborted { .. } => f.write_str("aborted"),
            Self::Synthesized { reason } => write!(f, "an error that the server made up ({reason})"),
        }
    }
}
