//! The events of a run, read as the server reads them (reference, section 4.2). What it drops is dropped, and noted.

mod agent;
mod chat;
mod interaction;

use std::time::Duration;

use serde_json::{Map, Value};

pub use self::agent::Agent;
pub(super) use self::chat::read as read_chat;
pub use self::chat::{Chat, ChatState};
pub use self::interaction::{Interaction, InteractionPhase};
use super::violation::{Notes, ViolationKind};

/// One event that the server has taken.
#[derive(Debug, Clone)]
pub struct SseEvent {
    /// The name: `chat`, `agent`, `ping` or `interaction`.
    pub name: String,
    /// `seq`.
    pub seq: Option<u64>,
    /// `runId`.
    pub run_id: Option<String>,
    /// `ts`, Unix milliseconds.
    pub ts: Option<u64>,
    /// When it came, from the start of sending the request.
    pub at: Duration,
    /// What it says.
    pub event: Event,
    /// The data as it came.
    pub raw: Map<String, Value>,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// `chat`
    Chat(Chat),
    /// `agent`
    Agent(Agent),
    /// `interaction`
    Interaction(Interaction),
    /// `ping`
    Ping,
}

impl SseEvent {
    /// The text of a chat delta.
    #[must_use]
    pub fn delta(&self) -> Option<&str> {
        match &self.event {
            Event::Chat(Chat { state: ChatState::Delta, text, .. }) => Some(text),
            _ => None,
        }
    }

    /// Whether this ends the run.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.event.is_terminal()
    }

    /// Whether this is an agent event of that stream and phase.
    #[must_use]
    pub fn is_agent(&self, stream: &str, phase: &str) -> bool {
        matches!(&self.event, Event::Agent(agent) if agent.stream == stream && agent.phase.as_deref() == Some(phase))
    }
}

impl Event {
    /// Reads the data of an event by its name; `None` if the server drops it.
    pub(super) fn read(name: &str, data: &Map<String, Value>, bytes: usize, notes: &mut Notes) -> Option<Self> {
        match name {
            "chat" => chat::read(data, notes).map(Self::Chat),
            "agent" => agent::read(data, notes).map(Self::Agent),
            "interaction" => interaction::read(data, bytes, notes).map(Self::Interaction),
            "ping" => Some(Self::Ping),
            "message" => {
                notes.push((ViolationKind::FrameWithoutName, "a frame has no `event:` line".to_owned()));
                None
            }
            other => {
                notes.push((ViolationKind::UnknownEvent, format!("an event is named {other:?}")));
                None
            }
        }
    }

    /// Whether this ends the run.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Chat(chat) => chat.state != ChatState::Delta,
            Self::Agent(agent) => matches!(agent.stream.as_str(), "error" | "approval"),
            _ => false,
        }
    }
}

/// A string field; empty counts as missing.
fn text<'a>(data: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// An optional string field, as the server decodes it: `None` inside `Err` is another type.
fn optional_text(data: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match data.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` is no string")),
    }
}
