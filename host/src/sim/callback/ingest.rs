//! Taking a callback into its run.

use serde_json::{Map, Value};

use super::super::event::{Chat, ChatState, Event, read_chat};
use super::super::outcome::Outcome;
use super::super::reader::chat_outcome;
use super::super::run::Run;
use super::super::violation::{Notes, ViolationKind};
use super::body::{Body, State};

/// What the body says to the run: its text is changed; the outcome if it is terminal.
pub(super) fn take(run: &mut Run, body: &Body, state: State, notes: &mut Notes) -> Option<Outcome> {
    if let (Some(event), Some(payload)) = (&body.event, &body.payload) {
        return streaming(run, event, payload, state, notes);
    }
    let text = body.message.as_ref().map(|message| message.text.clone()).unwrap_or_default();
    let state = match state {
        State::Delta => ChatState::Delta,
        State::Final => ChatState::Final,
        State::Error => ChatState::Error,
        State::Aborted => ChatState::Aborted,
    };
    if state == ChatState::Error && text.is_empty() {
        notes.push((ViolationKind::ChatError, "the error says nothing".to_owned()));
    }
    let chat = Chat { state, text, stop_reason: None, error_message: None, error_kind: None };
    chat_outcome(&mut run.text, &chat, notes)
}

fn streaming(
    run: &mut Run,
    event: &str,
    payload: &Map<String, Value>,
    state: State,
    notes: &mut Notes,
) -> Option<Outcome> {
    let mut payload = payload.clone();
    if event == "chat" {
        payload.insert("state".to_owned(), state.as_str().into());
        // Both spellings are read here, unlike on a stream.
        if let (None, Some(text)) = (payload.get("deltaText"), payload.get("delta_text").cloned()) {
            payload.insert("deltaText".to_owned(), text);
        }
        let chat = read_chat(&payload, notes)?;
        return chat_outcome(&mut run.text, &chat, notes);
    }
    // Here the fields may be nested in `data`, and the run is named outside of the payload.
    if let Some(Value::Object(data)) = payload.remove("data") {
        payload.extend(data);
    }
    payload.entry("runId").or_insert_with(|| run.delivery.id.clone().into());
    let _ = Event::read("agent", &payload, 0, notes);
    match state {
        State::Delta => None,
        State::Final => Some(Outcome::Final { text: run.text.as_str().to_owned(), stop_reason: None }),
        State::Error => Some(Outcome::Error { message: String::new(), kind: None }),
        State::Aborted => Some(Outcome::Aborted { stop_reason: None }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use super::super::super::run::Delivery;
    use super::*;
    use crate::wire::headers::ProtocolVersion;

    fn run() -> Run {
        let (id, bot, session) = ("r".to_owned(), "b".to_owned(), "s".to_owned());
        Run::new(Delivery { id, bot, session, version: ProtocolVersion::V2, timeout_ms: 1, at: Instant::now() })
    }

    fn feed(run: &mut Run, json: &str) -> (Option<Outcome>, Notes) {
        let body = Body::decode(json.as_bytes()).unwrap();
        let state = body.effective_state().unwrap();
        let mut notes = Notes::new();
        let outcome = take(run, &body, state, &mut notes);
        (outcome, notes)
    }

    #[test]
    fn deltas_in_both_spellings_and_a_final_without_text() {
        let mut run = run();
        for json in [
            r#"{"run_id":"r","event":"chat","payload":{"state":"delta","deltaText":"a"}}"#,
            r#"{"run_id":"r","event":"chat","payload":{"delta_text":"b"}}"#,
            r#"{"run_id":"r","event":"agent","payload":{"stream":"tool","data":{"phase":"result","name":"t","toolCallId":"1","result":{"content":[]}}}}"#,
        ] {
            assert_eq!(feed(&mut run, json), (None, Notes::new()), "{json}");
        }
        let (outcome, notes) = feed(&mut run, r#"{"run_id":"r","event":"chat","payload":{"state":"final"}}"#);
        assert_eq!(notes, []);
        assert_eq!(outcome.unwrap().text(), Some("ab"));
    }

    #[test]
    fn the_legacy_form() {
        let (outcome, notes) = feed(&mut run(), r#"{"run_id":"r","state":"error","message":{"text":"why"}}"#);
        assert_eq!((outcome, notes), (Some(Outcome::Error { message: "why".into(), kind: None }), Notes::new()));
    }
}
