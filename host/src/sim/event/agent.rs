//! `agent`: what the bot does on its way.

use serde_json::{Map, Value};

use super::super::violation::{Notes, ViolationKind};
use super::{optional_text, text};

/// An `agent` event.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// `stream`: tool, thinking, lifecycle, phase, assistant or error.
    pub stream: String,
    /// `phase`, of tool and lifecycle.
    pub phase: Option<String>,
    /// `toolCallId`.
    pub tool_call_id: Option<String>,
    /// `name` of a tool.
    pub name: Option<String>,
    /// `delta` of thinking.
    pub delta: Option<String>,
    /// `errorMessage` of error.
    pub error_message: Option<String>,
    /// `errorKind` of error.
    pub error_kind: Option<String>,
}

/// Reads an agent event; `None` if the server drops it.
pub(super) fn read(data: &Map<String, Value>, notes: &mut Notes) -> Option<Agent> {
    // A missing `runId` is noted with the fields that all events have.
    let has_run_id = data.get("runId").is_some_and(Value::is_string);
    let Some(stream) = text(data, "stream") else {
        notes.push((ViolationKind::AgentStream, "`stream` is missing or no string".to_owned()));
        return None;
    };
    let (rule, faults) = match stream {
        "tool" => (ViolationKind::ToolShape, tool_faults(data)),
        "thinking" => (ViolationKind::ThinkingShape, thinking_faults(data)),
        "lifecycle" => (ViolationKind::LifecycleShape, lifecycle_faults(data)),
        "phase" => (ViolationKind::PhaseShape, strings(data, &["fromPhase", "toPhase"])),
        "assistant" | "error" => (ViolationKind::AgentStream, Vec::new()),
        "approval" => (ViolationKind::ApprovalSent, vec!["an approval was sent".to_owned()]),
        other => (ViolationKind::AgentStream, vec![format!("`stream` is {other:?}")]),
    };
    let dropped = rule != ViolationKind::ApprovalSent && !faults.is_empty();
    notes.extend(faults.into_iter().map(|fault| (rule, fault)));
    if dropped || !has_run_id {
        return None;
    }
    let optional = |name: &str| optional_text(data, name).unwrap_or_default();
    Some(Agent {
        stream: stream.to_owned(),
        phase: optional("phase"),
        tool_call_id: optional("toolCallId"),
        name: optional("name"),
        delta: optional("delta"),
        error_message: optional("errorMessage"),
        error_kind: optional("errorKind"),
    })
}

fn tool_faults(data: &Map<String, Value>) -> Vec<String> {
    let mut faults = Vec::new();
    let phase = text(data, "phase");
    let needed: &[&str] = match phase {
        Some("start") => &["name", "args"],
        Some("update") => &["partialResult"],
        Some("result") => &["result"],
        _ => {
            faults.push("`phase` of a tool is none of start, update, result".to_owned());
            &[]
        }
    };
    if text(data, "toolCallId").is_none() {
        faults.push("`toolCallId` is missing, empty or no string".to_owned());
    }
    for name in needed {
        if !data.contains_key(*name) {
            faults.push(format!("`{name}` is missing in phase {}", phase.unwrap_or_default()));
        }
    }
    // A null is of a wrong type here, as it is for the strictest decoder.
    if data.get("name").is_some_and(|name| !name.is_string()) {
        faults.push("`name` is no string".to_owned());
    }
    if phase == Some("start") && text(data, "name").is_none() {
        faults.push("`name` of a started tool is empty or no string".to_owned());
    }
    if data.get("isError").is_some_and(|flag| !flag.is_boolean()) {
        faults.push("`isError` is no boolean".to_owned());
    }
    if data.get("durationMs").is_some_and(|ms| !ms.is_u64()) {
        faults.push("`durationMs` is no whole number".to_owned());
    }
    let content = data.get("result").map(|result| result.get("content"));
    if phase == Some("result") && !matches!(content, Some(Some(Value::Array(_)))) {
        faults.push("`result` has no `content` array".to_owned());
    }
    faults
}

fn thinking_faults(data: &Map<String, Value>) -> Vec<String> {
    let mut faults = Vec::new();
    faults.extend(optional_text(data, "delta").err());
    faults.extend(optional_text(data, "text").err());
    if data.get("delta").or_else(|| data.get("text")).is_none() {
        faults.push("there is neither `delta` nor `text`".to_owned());
    }
    faults
}

fn lifecycle_faults(data: &Map<String, Value>) -> Vec<String> {
    match text(data, "phase") {
        Some("start" | "end") => Vec::new(),
        _ => vec!["`phase` of a lifecycle is neither start nor end".to_owned()],
    }
}

fn strings(data: &Map<String, Value>, names: &[&str]) -> Vec<String> {
    names.iter().filter(|name| text(data, name).is_none()).map(|name| format!("`{name}` is no text")).collect()
}
