//! `interaction`: the bot asks a person.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::violation::{Notes, ViolationKind};
use super::text;

/// The largest requested interaction, in bytes.
const MAX_REQUEST: usize = 256 * 1024;

/// The phase of an interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractionPhase {
    /// The bot asks.
    Requested,
    /// The bot has applied the answer.
    Resolved,
}

/// An `interaction` event.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// `interactionId`.
    pub id: String,
    /// `phase`.
    pub phase: InteractionPhase,
    /// `kind`: `exec`, `ask_user` or `mode_switch`.
    pub kind: String,
    /// The whole event.
    pub raw: Map<String, Value>,
}

/// Reads an interaction event; `None` if the server drops it. `bytes` is the length of its JSON.
pub(super) fn read(data: &Map<String, Value>, bytes: usize, notes: &mut Notes) -> Option<Interaction> {
    let before = notes.len();
    let mut wrong = |what: &str| notes.push((ViolationKind::InteractionShape, what.to_owned()));
    for name in ["runId", "interactionId"] {
        if text(data, name).is_none() {
            wrong(&format!("`{name}` is missing, empty or no string"));
        }
    }
    if !data.get("seq").is_some_and(Value::is_u64) {
        wrong("an interaction without `seq` is dropped");
    }
    let phase = match text(data, "phase") {
        Some("requested") => Some(InteractionPhase::Requested),
        Some("resolved") => Some(InteractionPhase::Resolved),
        _ => None,
    };
    let kind = text(data, "kind").unwrap_or_default();
    match (kind, phase) {
        (_, None) => wrong("`phase` is neither requested nor resolved"),
        ("exec", Some(InteractionPhase::Requested)) => {
            if text(data, "command").is_none() {
                wrong("`command` is missing");
            }
            options(data, "options", "decision", usize::MAX, &mut wrong);
        }
        ("mode_switch", Some(InteractionPhase::Requested)) => {
            options(data, "options", "decision", usize::MAX, &mut wrong);
        }
        ("ask_user", Some(InteractionPhase::Requested)) => questions(data, &mut wrong),
        ("exec" | "mode_switch", Some(InteractionPhase::Resolved)) if text(data, "decision").is_none() => {
            wrong("a resolved interaction does not say its `decision`");
        }
        ("exec" | "mode_switch" | "ask_user", Some(InteractionPhase::Resolved)) => {}
        (other, _) => wrong(&format!("`kind` is {other:?}")),
    }
    if phase == Some(InteractionPhase::Requested) && bytes > MAX_REQUEST {
        notes.push((ViolationKind::InteractionLimit, format!("a requested interaction has {bytes} bytes")));
    }
    if notes.len() > before {
        return None;
    }
    let id = text(data, "interactionId").unwrap_or_default().to_owned();
    Some(Interaction { id, phase: phase?, kind: kind.to_owned(), raw: data.clone() })
}

/// Options: objects with a label and a `key`, at least one, at most `most`.
fn options(data: &Map<String, Value>, name: &str, key: &str, most: usize, wrong: &mut impl FnMut(&str)) {
    let list = data.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() || list.len() > most {
        wrong(&format!("`{name}` has {} entries", list.len()));
    }
    let has = |option: &Value, name: &str| option.get(name).is_some_and(Value::is_string);
    if !list.iter().all(|option| has(option, key) && has(option, "label")) {
        wrong(&format!("one of `{name}` has no `{key}` or no `label`"));
    }
}

fn questions(data: &Map<String, Value>, wrong: &mut impl FnMut(&str)) {
    let list = data.get("questions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() || list.len() > 4 {
        wrong(&format!("there are {} `questions`, not 1 to 4", list.len()));
    }
    let mut seen = HashSet::new();
    for question in list {
        let Value::Object(question) = question else {
            wrong("a question is no object");
            continue;
        };
        match text(question, "questionId") {
            None => wrong("a question has no `questionId`"),
            Some(id) if !seen.insert(id) => wrong(&format!("two questions have the id {id:?}")),
            Some(_) => {}
        }
        if text(question, "question").is_none() {
            wrong("a question has no `question`");
        }
        for flag in ["multiSelect", "allowOther"] {
            if question.get(flag).is_some_and(|value| !value.is_boolean()) {
                wrong(&format!("`{flag}` is no boolean"));
            }
        }
        if question.get("options").is_some_and(|options| !options.is_null()) {
            options(question, "options", "value", 4, wrong);
        }
    }
}
