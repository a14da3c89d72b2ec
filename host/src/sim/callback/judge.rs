//! The real server's checks of a callback, in its order: form, transport binding, state, token, run, deadline,
//! identity; then it is taken in (reference, section 5.3).

use std::time::Instant;

use super::super::options::BcsOptions;
use super::super::outcome::Outcome;
use super::super::run::{Phase, Run};
use super::super::state::{Inner, State as SimState};
use super::super::violation::{Notes, ViolationKind};
use super::body::{Body, State};
use super::{Post, Verdict, auth, ingest, lint};
use crate::wire::callback::MAX_BODY;
use crate::wire::headers::{ProtocolVersion, is_json};

/// Checks a callback and takes it in.
pub(super) async fn receive(inner: &Inner, post: &Post, too_large: bool) -> Verdict {
    let early = wait_for_ack(inner, &post.run_id).await;
    let mut notes = Notes::new();
    let mut state = inner.state();
    let mut verdict = judge(&mut state, &inner.options, post, too_large, early, &mut notes);
    verdict.early = early;
    state.note_all(&post.run_id, notes);
    verdict
}

/// What is noted of a callback that the server never sees, because a fault comes first.
pub(super) fn unseen(inner: &Inner, post: &Post) {
    let mut notes = Notes::new();
    let mut state = inner.state();
    lint::headers(&inner.options, &post.headers, state.runs.get(&post.run_id), &mut notes);
    let terminal = Body::decode(&post.body).is_ok_and(|body| is_terminal(&body));
    lint::event_id(&mut state, post, terminal, &mut notes);
    state.note_all(&post.run_id, notes);
}

fn is_terminal(body: &Body) -> bool {
    body.effective_state().is_some_and(|state| state != State::Delta)
}

/// Whether the callback came while its send was being answered. Then it is held for a little: acknowledgement and
/// callback come over different sockets, so an acknowledgement that was sent first may well be read second.
async fn wait_for_ack(inner: &Inner, run_id: &str) -> bool {
    let negotiating = |state: &SimState| state.runs.get(run_id).is_some_and(|run| run.phase == Phase::Negotiating);
    let changed = {
        let state = inner.state();
        if !negotiating(&state) {
            return false;
        }
        state.runs.get(run_id).map(|run| run.changed.clone()).unwrap_or_default()
    };
    let acked = |state: &SimState| (!negotiating(state)).then_some(());
    if inner.wait(inner.options.ack_grace, &changed, String::new, acked).await.is_err() {
        let what = "the callback came and the `chat.send` had not been answered";
        inner.note(ViolationKind::CallbackBeforeAck, run_id, what);
    }
    true
}

fn judge(
    state: &mut SimState,
    options: &BcsOptions,
    post: &Post,
    too_large: bool,
    early: bool,
    notes: &mut Notes,
) -> Verdict {
    lint::headers(options, &post.headers, state.runs.get(&post.run_id), notes);
    let body = match form(post, too_large, notes) {
        Ok(body) => body,
        Err(verdict) => {
            lint::event_id(state, post, false, notes);
            return verdict;
        }
    };
    let repeated = lint::event_id(state, post, is_terminal(&body), notes);
    let run = state.runs.get_mut(&post.run_id).filter(|run| run.phase != Phase::Refused);
    let ended = |run: &Run, notes: &mut Notes| {
        if !repeated {
            after_end(run, &body, notes);
        }
        Verdict::error(410, "run_terminated", "the run has ended")
    };
    if let Some(run) = &run
        && run.delivery.version == ProtocolVersion::V2
    {
        if run.phase == Phase::Sse {
            notes.push((ViolationKind::CallbackOnSse, "the run's events go over its stream".to_owned()));
            return Verdict::error(409, "transport_conflict", "the run is bound to its event stream");
        } else if early {
            return Verdict::error(409, "transport_conflict", "the transport of the run is still being negotiated");
        } else if run.outcome.is_some() {
            return ended(run, notes);
        }
    }
    let effective = match form_state(&body, notes) {
        Ok(effective) => effective,
        Err(verdict) => return verdict,
    };
    if let Err(verdict) = auth::authenticate(options, &post.headers) {
        notes.push((ViolationKind::CallbackAuth, verdict.body.clone()));
        return verdict;
    }
    let Some(run) = run else {
        notes.push((ViolationKind::CallbackUnknownRun, format!("there is no run {:?}", post.run_id)));
        return Verdict::error(404, "run_not_found", "the run is unknown");
    };
    if run.outcome.is_some() {
        return ended(run, notes);
    }
    let late = Instant::now() >= run.deadline();
    if let Err(verdict) = auth::identify(options, &post.headers, &run.delivery.bot) {
        notes.push((ViolationKind::CallbackAuth, verdict.body.clone()));
        // The deadline is checked before the identity.
        return if late { Verdict::error(410, "run_terminated", "the run is past its deadline") } else { verdict };
    }
    if let Some(outcome) = ingest::take(run, &body, effective, notes) {
        run.end(outcome, notes);
    }
    if late {
        // The real server would have ended the run itself; here its own end is kept for the test to see.
        return Verdict::error(410, "run_terminated", "the run is past its deadline");
    }
    Verdict::accepted()
}

/// Content type, size and JSON: what the server's HTTP layer checks; then the run id.
fn form(post: &Post, too_large: bool, notes: &mut Notes) -> Result<Body, Verdict> {
    if !is_json(&post.headers) {
        notes.push((ViolationKind::CallbackContentType, "the content type is not JSON".to_owned()));
        return Err(Verdict::plain(415, "Expected request with `Content-Type: application/json`"));
    }
    if too_large || post.body.len() > MAX_BODY {
        notes.push((ViolationKind::CallbackTooLarge, format!("the body has more than {MAX_BODY} bytes")));
        return Err(Verdict::plain(400, "Failed to buffer the request body: length limit exceeded"));
    }
    let body = Body::decode(&post.body).inspect_err(|verdict| {
        notes.push((ViolationKind::CallbackShape, verdict.body.clone()));
    })?;
    if body.run_id.is_empty() {
        notes.push((ViolationKind::CallbackShape, "`run_id` is empty".to_owned()));
        return Err(Verdict::error(400, "invalid_request", "run_id is empty"));
    }
    Ok(body)
}

/// The state, if the form allows it.
fn form_state(body: &Body, notes: &mut Notes) -> Result<State, Verdict> {
    let Some(state) = body.effective_state() else {
        let what = "there is neither `state` nor `event` with `payload`";
        notes.push((ViolationKind::CallbackShape, what.to_owned()));
        return Err(Verdict::error(400, "invalid_request", what));
    };
    if state == State::Delta && !body.is_streaming() {
        notes.push((ViolationKind::CallbackState, "a delta came in the legacy form".to_owned()));
        let what = "only final, error, and aborted states are supported";
        return Err(Verdict::error(400, "invalid_request", what));
    }
    match body.event.as_deref() {
        Some(event) if body.is_streaming() && !matches!(event, "agent" | "chat") => {
            notes.push((ViolationKind::CallbackShape, format!("`event` is {event:?}, neither agent nor chat")));
            Err(Verdict::error(400, "invalid_request", "event is neither agent nor chat"))
        }
        _ => Ok(state),
    }
}

/// A new callback for a run that has ended. The aborted one of a run that the server ended itself, on the answer to
/// `chat.abort`, is right all the same; and at the deadline both sides end a run.
fn after_end(run: &Run, body: &Body, notes: &mut Notes) {
    let told = run.outcome.as_ref().is_some_and(Outcome::is_told);
    if !told {
        return;
    }
    if !run.abort_confirmed {
        notes.push((ViolationKind::CallbackAfterTerminal, "the run had ended".to_owned()));
    } else if body.effective_state() != Some(State::Aborted) {
        let what = "its abort was confirmed, and then it ended in another way".to_owned();
        notes.push((ViolationKind::OutcomeDiffers, what));
    }
}
