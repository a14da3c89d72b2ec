//! `chat`: the reply and the end.

use serde_json::{Map, Value};

use super::super::violation::{Notes, ViolationKind};
use super::optional_text;

/// The state of a chat event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatState {
    /// A piece of the reply.
    Delta,
    /// The whole reply.
    Final,
    /// The run failed.
    Error,
    /// The run was aborted.
    Aborted,
}

/// A `chat` event.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// `state`.
    pub state: ChatState,
    /// The text that the server takes from it: a delta's, or of the message's first block. Empty if there is none.
    pub text: String,
    /// `stopReason`.
    pub stop_reason: Option<String>,
    /// `errorMessage`.
    pub error_message: Option<String>,
    /// `errorKind`.
    pub error_kind: Option<String>,
}

/// Reads a chat event; `None` if the server drops it.
pub(in super::super) fn read(data: &Map<String, Value>, notes: &mut Notes) -> Option<Chat> {
    let state = match data.get("state").and_then(Value::as_str) {
        Some("delta") => ChatState::Delta,
        Some("final") => ChatState::Final,
        Some("error") => ChatState::Error,
        Some("aborted") => ChatState::Aborted,
        _ => {
            let got = data.get("state").map_or_else(|| "missing".to_owned(), Value::to_string);
            notes.push((ViolationKind::ChatState, format!("`state` is {got}")));
            return None;
        }
    };
    let mut optional = |name: &str| {
        optional_text(data, name).unwrap_or_else(|what| {
            notes.push((ViolationKind::ChatField, what));
            None
        })
    };
    let (stop_reason, error_message, error_kind) =
        (optional("stopReason"), optional("errorMessage"), optional("errorKind"));
    optional("errorCode");
    let body = message_text(data, notes);
    let text = if state == ChatState::Delta { delta_text(data, body, notes) } else { body };
    if state == ChatState::Error && error_message.as_deref().unwrap_or_default().is_empty() && text.is_empty() {
        notes.push((ViolationKind::ChatError, "the error says nothing".to_owned()));
    }
    Some(Chat { state, text, stop_reason, error_message, error_kind })
}

/// The text of a delta: `deltaText`, else `content`, else what the message has.
fn delta_text(data: &Map<String, Value>, body: String, notes: &mut Notes) -> String {
    let mut wrong = |what: &str| notes.push((ViolationKind::ChatDelta, what.to_owned()));
    let (camel, snake) = (data.get("deltaText"), data.get("delta_text"));
    if let Some(Value::String(text)) = camel {
        if snake.is_some_and(|other| other.as_str() != Some(text)) {
            wrong("`deltaText` and `delta_text` differ");
        }
        return text.clone();
    }
    wrong(match (camel, snake) {
        (Some(_), _) => "`deltaText` is no string",
        (None, Some(_)) => "the text is in `delta_text` only, which the server does not read on a stream",
        (None, None) => "a delta has no `deltaText`",
    });
    body
}

/// The text of `message`, or of `content` where there is no message: the first block's, or none if it is malformed.
fn message_text(data: &Map<String, Value>, notes: &mut Notes) -> String {
    let Some(message) = data.get("message").filter(|message| !message.is_null()) else {
        return data.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    };
    if let Some(what) = message_fault(message) {
        notes.push((ViolationKind::MessageShape, what));
        return String::new();
    }
    let blocks = message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if blocks.len() > 1 {
        notes.push((ViolationKind::SeveralBlocks, format!("a message has {} content blocks", blocks.len())));
    }
    let first = blocks.first().and_then(|block| block.get("text")).and_then(Value::as_str);
    first.unwrap_or_default().to_owned()
}

/// What makes the server leave a message out, if anything.
fn message_fault(message: &Value) -> Option<String> {
    let Value::Object(fields) = message else { return Some("`message` is no object".to_owned()) };
    match fields.get("role") {
        Some(Value::String(role)) if role == "assistant" => {}
        Some(Value::String(role)) => return Some(format!("`message.role` is {role:?}, not assistant")),
        _ => return Some("`message.role` is missing or no string".to_owned()),
    }
    let Some(Value::Array(blocks)) = fields.get("content") else {
        return Some("`message.content` is missing or no array".to_owned());
    };
    let good = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text").is_some_and(Value::is_string),
        Some("image") => block.get("url").is_some_and(Value::is_string),
        _ => false,
    };
    if !blocks.iter().all(good) {
        return Some("a block of `message.content` is neither a text nor an image".to_owned());
    }
    match fields.get("timestamp") {
        None => None,
        Some(timestamp) if timestamp.is_u64() => None,
        Some(timestamp) => Some(format!("`message.timestamp` is {timestamp}")),
    }
}
