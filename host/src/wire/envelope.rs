//! The body of a request to the webhook (reference, section 2.1), read field by field so that an error can name the field.

mod read;
#[cfg(test)]
mod tests;

use serde_json::value::RawValue;

use super::error::ApiError;
use super::fingerprint::Fingerprint;
use super::message::RawMessage;

/// The longest `id`, in bytes.
pub const MAX_ID: usize = 512;

/// The longest `session_id` and `bcn_group_id`, in bytes.
pub const MAX_NAME: usize = 1024;

/// The methods of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// `chat.send`
    Send,
    /// `chat.inject`
    Inject,
    /// `chat.abort`
    Abort,
    /// `chat.history`
    History,
    /// `bot.ping`
    Ping,
    /// `interaction.resolve`
    Resolve,
    /// Anything else, as received.
    Other(String),
}

impl Method {
    /// The method of this name.
    #[must_use]
    pub fn of(name: String) -> Self {
        match name.as_str() {
            "chat.send" => Self::Send,
            "chat.inject" => Self::Inject,
            "chat.abort" => Self::Abort,
            "chat.history" => Self::History,
            "bot.ping" => Self::Ping,
            "interaction.resolve" => Self::Resolve,
            _ => Self::Other(name),
        }
    }

    /// The method's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Send => "chat.send",
            Self::Inject => "chat.inject",
            Self::Abort => "chat.abort",
            Self::History => "chat.history",
            Self::Ping => "bot.ping",
            Self::Resolve => "interaction.resolve",
            Self::Other(name) => name,
        }
    }
}

/// A request whose form is right. Whether provider, method and bot exist is for the webhook to say.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The business id; empty only in a `bot.ping` that has none.
    pub id: String,
    /// The method.
    pub method: Method,
    /// `to_bot.provider_id`; absent only in a `bot.ping` that has none.
    pub provider_id: Option<String>,
    /// `to_bot.provider_bot_ref`, unchecked; absent only in a `bot.ping` or an unknown method that has none.
    pub bot: Option<String>,
    /// `to_bot.tags`.
    pub tags: Vec<String>,
    /// `session_id`, exactly as received; may be empty.
    pub session_id: String,
    /// `bcn_group_id`; may be empty.
    pub group_id: String,
    /// `timeout_ms`.
    pub timeout_ms: Option<u64>,
    /// `message`, `from` and `attachments`; always there for send and inject, never for another method.
    pub message: Option<RawMessage>,
    /// `before` of chat.history, Unix milliseconds, exclusive.
    pub before: Option<u64>,
    /// `after` of chat.history, Unix milliseconds, exclusive.
    pub after: Option<u64>,
    /// `limit` of chat.history.
    pub limit: Option<u64>,
    /// `params`, of interaction.resolve.
    pub params: Option<Box<RawValue>>,
    /// `extensions`, one JSON object.
    pub extensions: Option<Box<RawValue>>,
    /// What makes a repeated body the same.
    pub fingerprint: Fingerprint,
}

impl Envelope {
    /// Reads a body.
    ///
    /// An unknown field is passed over (and counts for the fingerprint); `null` stands for an absent one. Of an
    /// unknown method only `type`, `id`, `method` and `to_bot.provider_id` are checked.
    ///
    /// # Errors
    /// `invalid_request` naming the field, what was expected and what was found.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        read::envelope(body)
    }
}
