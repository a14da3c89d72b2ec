//! `chat.abort`: ends what is running in a session (reference, section 3.4).

use serde_json::Value;

use super::super::Bcs;
use super::super::answer::{self, Ack, Meta, OkFalse, Reply};
use super::super::error::SimError;
use super::super::outcome::Outcome;
use super::super::request::{Kind, Request};
use super::super::violation::{Notes, ViolationKind};
use super::ABORT_TIMEOUT_MS;

/// `chat.abort`
#[derive(Debug, Clone, Copy)]
pub struct AbortMethod;

/// An accepted `chat.abort`.
#[derive(Debug, Clone)]
pub struct AbortAnswer {
    /// Status, headers and times.
    pub meta: Meta,
    /// `aborted`.
    pub aborted: bool,
    /// `aborted_run_ids`.
    pub run_ids: Vec<String>,
}

impl Bcs {
    /// A `chat.abort`. Refused with `run_terminated` means that there was nothing to abort any more.
    #[must_use]
    pub fn abort(&self, bot: &str, session: &str) -> Request<AbortMethod> {
        Request::new(self, "chat.abort", bot, session, ABORT_TIMEOUT_MS)
    }
}

impl Kind for AbortMethod {
    type Answer = Reply<AbortAnswer>;

    async fn perform(request: Request<Self>) -> Result<Self::Answer, SimError> {
        let sent = request.post().await?;
        let reply = answer::read(&request.bcs, request.request_id(), sent, OkFalse::Noted).await?;
        Ok(reply.map(|ack| {
            let mut notes = Notes::new();
            let answer = read(ack, &mut notes);
            request.bcs.inner.state().note_all(request.request_id(), notes);
            confirm(&request, &answer);
            answer
        }))
    }
}

fn read(ack: Ack, notes: &mut Notes) -> AbortAnswer {
    let mut wrong = |what: &str| notes.push((ViolationKind::AbortShape, what.to_owned()));
    let aborted = ack.body.get("aborted").and_then(Value::as_bool);
    if aborted.is_none() {
        wrong("`aborted` is missing or no boolean");
    }
    let mut run_ids = Vec::new();
    match ack.body.get("aborted_run_ids").or_else(|| ack.body.get("run_ids")) {
        Some(Value::Array(ids)) => {
            for id in ids {
                match id {
                    Value::String(id) => run_ids.push(id.clone()),
                    other => wrong(&format!("{other} in `aborted_run_ids` is no string")),
                }
            }
        }
        _ => wrong("`aborted_run_ids` is missing or no array"),
    }
    if aborted.is_some_and(|aborted| aborted == run_ids.is_empty()) {
        wrong("`aborted` says the contrary of `aborted_run_ids`");
    }
    AbortAnswer { meta: ack.meta, aborted: aborted.unwrap_or(!run_ids.is_empty()), run_ids }
}

/// The server ends the confirmed runs itself, if they are of this scope.
fn confirm(request: &Request<AbortMethod>, answer: &AbortAnswer) {
    let (bot, session) = (request.bot(), request.text("session_id"));
    let mut state = request.bcs.inner.state();
    for id in &answer.run_ids {
        let in_scope = state.runs.get(id).is_some_and(|run| run.delivery.bot == bot && run.delivery.session == session);
        if !in_scope {
            let what = format!("the run {id:?} is no run of bot {bot:?} in session {session:?}");
            state.note(ViolationKind::ScopeMismatch, request.request_id(), what);
            continue;
        }
        state.with_run(id, |run, notes| {
            run.abort_confirmed = true;
            run.end(Outcome::Aborted { stop_reason: None }, notes);
        });
    }
}
