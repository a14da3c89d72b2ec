//! The rules of a whole stream: one sequence, one run id, deltas and their final, interactions in order, one end
//! (reference, sections 4.3 and 4.4). No I/O: frames in, events and notes out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::event::{Chat, ChatState, Event, Interaction, InteractionPhase, SseEvent};
use super::outcome::Outcome;
use super::text::Text;
use super::violation::{Notes, ViolationKind};
use crate::wire::sse::Received;

/// How many interactions of one run may be open.
const MAX_OPEN: usize = 32;

/// What the server knows of a stream while it reads it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    last_seq: Option<u64>,
    pub(super) run_id: Option<String>,
    pub(super) text: Text,
    pub(super) interactions: BTreeMap<String, Interaction>,
    pub(super) outcome: Option<Outcome>,
}

impl Reader {
    /// Takes a frame; `None` if the server drops it.
    pub(super) fn take(&mut self, frame: &Received, at: Duration, notes: &mut Notes) -> Option<SseEvent> {
        if self.outcome.is_some() {
            notes.push((ViolationKind::AfterTerminal, format!("an event {:?} follows the terminal", frame.name)));
            return None;
        }
        let known = ["chat", "agent", "interaction"].contains(&frame.name.as_str());
        let data = match serde_json::from_str(&frame.data) {
            Ok(Value::Object(data)) => data,
            Ok(_) if !known => Map::new(),
            _ => {
                let what = format!("the data of an event {:?} is no JSON object", frame.name);
                notes.push((ViolationKind::DataNotJson, what));
                return None;
            }
        };
        if known {
            self.check_common(&data, frame, notes);
        }
        let event = Event::read(&frame.name, &data, frame.data.len(), notes)?;
        let seq = if known { data.get("seq").and_then(Value::as_u64) } else { None };
        if known && !self.advance(seq, &event, notes) {
            return None;
        }
        self.apply(&event, notes)?;
        let run_id = data.get("runId").and_then(Value::as_str).map(str::to_owned);
        let ts = data.get("ts").and_then(Value::as_u64);
        Some(SseEvent { name: frame.name.clone(), seq, run_id, ts, at, event, raw: data })
    }

    /// The fields that every event but ping has.
    fn check_common(&mut self, data: &Map<String, Value>, frame: &Received, notes: &mut Notes) {
        let name = &frame.name;
        match data.get("runId").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            None => notes.push((ViolationKind::RunIdMissing, format!("an event {name:?} has no `runId`"))),
            Some(id) => {
                let first = self.run_id.get_or_insert_with(|| id.to_owned());
                if first != id {
                    notes.push((ViolationKind::RunIdChanged, format!("`runId` was {first:?}, now {id:?}")));
                }
            }
        }
        if !data.get("ts").is_some_and(Value::is_u64) {
            notes.push((ViolationKind::TsMissing, format!("`ts` of an event {name:?} is missing or no whole number")));
        }
        let seq = data.get("seq").and_then(Value::as_u64);
        if seq.is_none() {
            notes
                .push((ViolationKind::SeqMissing, format!("`seq` of an event {name:?} is missing or no whole number")));
        } else if frame.id.is_some() && frame.id != seq {
            notes.push((ViolationKind::SeqIdDiffers, "the `id:` line is not the `seq`".to_owned()));
        }
    }

    /// Moves the sequence on; false if the event is dropped as a repetition.
    fn advance(&mut self, seq: Option<u64>, event: &Event, notes: &mut Notes) -> bool {
        let Some(seq) = seq else { return true };
        let last = self.last_seq;
        if last.is_some_and(|last| seq <= last) {
            let what = if event.is_terminal() { "the terminal event" } else { "an event" };
            let last = last.unwrap_or_default();
            notes.push((ViolationKind::SeqNotRising, format!("{what} has seq {seq} after {last}")));
            return false;
        }
        let expected = last.map_or(1, |last| last.saturating_add(1));
        if seq != expected {
            notes.push((ViolationKind::SeqGap, format!("seq is {seq} where {expected} was due")));
        }
        self.last_seq = Some(seq);
        true
    }

    /// What the event changes; `None` if the server drops it after all.
    fn apply(&mut self, event: &Event, notes: &mut Notes) -> Option<()> {
        match event {
            Event::Chat(chat) => {
                let outcome = chat_outcome(&mut self.text, chat, notes);
                self.outcome = outcome;
            }
            Event::Agent(agent) if agent.stream == "approval" => {
                self.outcome = Some(Outcome::Synthesized { reason: "an approval was sent".to_owned() });
            }
            Event::Agent(agent) if agent.stream == "error" => {
                let message = agent.error_message.clone().unwrap_or_default();
                self.outcome = Some(Outcome::Error { message, kind: agent.error_kind.clone() });
            }
            Event::Interaction(interaction) => return self.interact(interaction, notes),
            Event::Agent(_) | Event::Ping => {}
        }
        Some(())
    }

    fn interact(&mut self, interaction: &Interaction, notes: &mut Notes) -> Option<()> {
        let mut wrong = |what: &str| {
            notes.push((ViolationKind::InteractionOrder, format!("interaction {:?} {what}", interaction.id)));
            None
        };
        match (self.interactions.get(&interaction.id), interaction.phase) {
            (Some(_), InteractionPhase::Requested) => return wrong("is requested again"),
            (None, InteractionPhase::Resolved) => return wrong("is resolved but was never requested"),
            (Some(known), _) if known.phase == InteractionPhase::Resolved => return wrong("is resolved again"),
            (Some(known), _) if known.kind != interaction.kind => return wrong("is resolved with another kind"),
            _ => {}
        }
        let open = self.interactions.values().filter(|known| known.phase == InteractionPhase::Requested).count();
        if interaction.phase == InteractionPhase::Requested && open >= MAX_OPEN {
            notes.push((ViolationKind::InteractionLimit, format!("more than {MAX_OPEN} interactions are open")));
            return None;
        }
        self.interactions.insert(interaction.id.clone(), interaction.clone());
        Some(())
    }
}

/// Takes a chat event into the text; its outcome if it is terminal. For streams and for callbacks.
pub(super) fn chat_outcome(text: &mut Text, chat: &Chat, notes: &mut Notes) -> Option<Outcome> {
    match chat.state {
        ChatState::Delta => {
            text.delta(&chat.text);
            None
        }
        ChatState::Final => {
            let before = text.as_str().len();
            if text.finish(&chat.text).is_err() {
                let what = format!("the final does not begin with the {before} bytes of the deltas");
                notes.push((ViolationKind::FinalNotPrefix, what));
            }
            Some(Outcome::Final { text: text.as_str().to_owned(), stop_reason: chat.stop_reason.clone() })
        }
        ChatState::Error => {
            let message =
                if chat.text.is_empty() { chat.error_message.clone().unwrap_or_default() } else { chat.text.clone() };
            Some(Outcome::Error { message, kind: chat.error_kind.clone() })
        }
        ChatState::Aborted => Some(Outcome::Aborted { stop_reason: chat.stop_reason.clone() }),
    }
}
