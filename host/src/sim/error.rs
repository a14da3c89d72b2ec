//! Why the simulated server could not do what a test asked.

use std::error::Error;
use std::time::Duration;

/// Why something asked of the simulated server did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// There is no webhook yet.
    #[error("no webhook is known: call `Bcs::connect` with the Provider's webhook URL first")]
    NotConnected,
    /// The callback server cannot listen.
    #[error("the simulated BCS cannot listen on {address}: {reason}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// A request cannot be built, for instance of a header that is not one.
    #[error("the request cannot be built: {0}")]
    Request(String),
    /// The webhook cannot be reached, or the connection broke before the answer was whole.
    #[error("the webhook did not answer: {0}")]
    Transport(String),
    /// Something did not happen in time.
    #[error("waited {waited:?} for {what}, in vain")]
    TimedOut {
        /// For what.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// The Provider answered something else than the test needs.
    #[error("expected {wanted}, but {got}")]
    Unexpected {
        /// What the test needs.
        wanted: &'static str,
        /// What there was.
        got: String,
    },
    /// Rules of the protocol were broken; one line for each.
    #[error("the Provider broke {count} rules of the protocol:\n{list}")]
    Violations {
        /// How many.
        count: usize,
        /// One line each.
        list: String,
    },
}

impl SimError {
    /// The error of an HTTP client with all its causes: the client itself shows only the outermost.
    pub(super) fn transport(error: &reqwest::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::Transport(text)
    }
}
