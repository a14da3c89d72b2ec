//! What the guide asks of a callback and the real server does not look at.

use http::HeaderMap;

use super::super::options::BcsOptions;
use super::super::run::Run;
use super::super::state::State as SimState;
use super::super::unix_ms;
use super::super::violation::{Notes, ViolationKind};
use super::{Post, SeenEvent};
use crate::wire::headers::{EVENT_ID, PROTOCOL_VERSION, PROVIDER_BOT_REF, TIMESTAMP};

/// Checks the guide's headers.
pub(super) fn headers(options: &BcsOptions, headers: &HeaderMap, run: Option<&Run>, notes: &mut Notes) {
    let mut wrong = |what: String| notes.push((ViolationKind::CallbackHeader, what));
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("(no text)"));
    match (text(PROTOCOL_VERSION), run.map(|run| run.delivery.version.as_str())) {
        (None, _) => wrong("X-BCN-Protocol-Version is missing".to_owned()),
        (Some(version), Some(expected)) if version != expected => {
            wrong(format!("X-BCN-Protocol-Version is {version:?} for a run of protocol {expected}"));
        }
        (Some("1.0" | "2.0"), _) => {}
        (Some(version), _) => wrong(format!("X-BCN-Protocol-Version is {version:?}")),
    }
    match text(TIMESTAMP).map(str::parse::<u64>) {
        None => wrong("X-BCN-Timestamp is missing".to_owned()),
        Some(Err(_)) => wrong("X-BCN-Timestamp is no whole number of milliseconds".to_owned()),
        Some(Ok(ms)) => {
            let away = ms.abs_diff(unix_ms());
            if u128::from(away) > options.max_skew.as_millis() {
                wrong(format!("X-BCN-Timestamp is {away} ms away from now"));
            }
        }
    }
    if text(EVENT_ID).is_none_or(|id| id.trim().is_empty()) {
        wrong("X-BCN-Event-Id is missing or empty".to_owned());
    }
    if let (Some(name), Some(run)) = (text(PROVIDER_BOT_REF), run)
        && name != run.delivery.bot
    {
        wrong(format!("X-BCN-Provider-Bot-Ref is {name:?} for a run of bot {:?}", run.delivery.bot));
    }
}

/// Checks the event id against all that came before, and remembers it. `terminal`: whether the body ends the run.
/// Whether the callback is a repetition, to be judged by that alone.
pub(super) fn event_id(state: &mut SimState, post: &Post, terminal: bool, notes: &mut Notes) -> bool {
    if post.event_id.is_empty() {
        return false;
    }
    let seen = state.events.get(&post.event_id);
    let mut repeated = seen.is_some();
    if let Some(seen) = seen {
        if seen.body != post.body {
            notes.push((ViolationKind::EventIdReused, "the same event id came with another body".to_owned()));
        }
        match seen.answer {
            Some(status @ 200..=299) => {
                notes.push((ViolationKind::CallbackRepeated, format!("it had been answered {status}")));
            }
            Some(status @ (400 | 401 | 403 | 410 | 415 | 422)) => {
                notes.push((ViolationKind::CallbackRetried, format!("it had been refused with {status}")));
            }
            _ => {}
        }
    }
    if terminal {
        let first = state.ends.entry(post.run_id.clone()).or_insert_with(|| post.body.clone());
        // The two share their bytes if this is the first; a delta can be the same twice, an end cannot.
        if !repeated && first.as_ptr() != post.body.as_ptr() && *first == post.body {
            notes.push((ViolationKind::EventIdChanged, "the same body came with another event id".to_owned()));
            repeated = true;
        }
    }
    state.events.insert(post.event_id.clone(), SeenEvent { body: post.body.clone(), answer: None });
    repeated
}
