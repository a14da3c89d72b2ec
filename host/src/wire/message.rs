//! A message in all the forms the server sends (reference, sections 2.2 and 2.3), kept as it came.

mod read;
mod sender;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::json::raw;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person or another bot.
    User,
    /// This bot.
    Assistant,
    /// The system.
    System,
}

/// Who wrote a message, as the network reports it. Attribution only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// `bot` on today's wire, whoever it is; `sender` when taken from a forwarded sender line.
    pub kind: String,
    /// The name to show.
    pub name: String,
    /// The network's id of the author.
    pub id: Option<String>,
}

/// A file or picture that came with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// `file_name`.
    pub name: Option<String>,
    /// `mime_type`.
    pub media_type: Option<String>,
    /// `url`: a short-lived capability. Never logged.
    pub url: Option<String>,
    /// The attachment as it came, one JSON object.
    pub json: String,
}

impl std::fmt::Debug for Attachment {
    /// Without `url` and `json`: whoever has the address has the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .finish_non_exhaustive()
    }
}

/// A message as it is kept: the JSON texts exactly as received, to be parsed when read.
#[derive(Clone, Serialize, Deserialize)]
pub struct RawMessage {
    /// The value of `message`.
    pub message: Box<RawValue>,
    /// The value of `from`, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<RawValue>>,
    /// The value of `attachments`, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Box<RawValue>>,
}

impl std::fmt::Debug for RawMessage {
    /// Without `attachments`, which has their addresses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawMessage").field("message", &self.message).field("from", &self.from).finish_non_exhaustive()
    }
}

/// A message as a bot sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// All text blocks together, without a forwarded sender line.
    pub text: String,
    /// The author, of the sender line if there is one, else of `from`.
    pub author: Option<Author>,
    /// What came with it.
    pub attachments: Vec<Attachment>,
    /// The message as it came, one JSON value.
    pub json: String,
}

impl RawMessage {
    /// Reads the message.
    ///
    /// # Errors
    /// `invalid_request` naming the field that is not of an accepted form.
    pub fn parse(&self) -> Result<Message, ApiError> {
        let attachments = read::attachments(self.attachments.as_deref())?;
        let read::Body { role, text } = read::body(&self.message, !attachments.is_empty())?;
        let from = self.from.as_deref().map(read::author).transpose()?;
        let (sender, text) = sender::take(text);
        Ok(Message { role, text, author: sender.or(from), attachments, json: self.message.get().to_owned() })
    }

    /// A bot's reply of this text: `{"role":"assistant","content":[{"type":"text","text":…}],"timestamp":…}`, with
    /// `stopReason` if there is one.
    #[must_use]
    pub fn reply(text: &str, stop_reason: Option<&str>, timestamp: u64) -> Self {
        let mut message = json!({
            "role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": timestamp,
        });
        if let Some(reason) = stop_reason {
            message["stopReason"] = reason.into();
        }
        Self { message: raw(&message), from: None, attachments: None }
    }

    /// The message as an entry of a `chat.history` answer (reference, section 3.2): role, content as it came, our
    /// `id` and `timestamp`, and what else the message had.
    ///
    /// A forwarded sender line stays in the text: the server attributes by what it finds there. A field that a
    /// [`Value`] cannot hold (a number beyond floating point) is left out.
    #[must_use]
    pub fn to_history(&self, id: &str, timestamp: u64) -> Value {
        let mut entry = match serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(self.message.get())
        {
            Ok(fields) => fields
                .into_iter()
                .filter_map(|(name, raw)| Some((name, serde_json::from_str(raw.get()).ok()?)))
                .collect(),
            Err(_) => Map::new(),
        };
        if !entry.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
            let text = read::body(&self.message, true).map(|body| body.text).unwrap_or_default();
            entry.insert("content".into(), json!([{"type": "text", "text": text}]));
            entry.remove("text");
        }
        if !entry.get("role").is_some_and(Value::is_string) {
            entry.insert("role".into(), "user".into());
        }
        entry.insert("id".into(), id.into());
        entry.insert("timestamp".into(), timestamp.into());
        Value::Object(entry)
    }
}
