//! The body of a callback (reference, section 5.2).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Verdict;

/// The states that the endpoint knows; any other word is no JSON of this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Delta,
    Final,
    Error,
    Aborted,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Final => "final",
            Self::Error => "error",
            Self::Aborted => "aborted",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Delta, Self::Final, Self::Error, Self::Aborted].into_iter().find(|state| state.as_str() == word)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) text: String,
}

/// A body as the endpoint decodes it.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) run_id: String,
    #[serde(default, rename = "seq")]
    _seq: Option<u64>,
    #[serde(default)]
    pub(super) state: Option<State>,
    #[serde(default)]
    pub(super) message: Option<Message>,
    #[serde(default)]
    pub(super) event: Option<String>,
    #[serde(default)]
    pub(super) payload: Option<Map<String, Value>>,
}

impl Body {
    /// Decodes a body; what the server's HTTP layer says if it cannot be.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Verdict> {
        serde_json::from_slice(bytes).map_err(|error| {
            let (status, what) = match error.classify() {
                serde_json::error::Category::Data => (422, "Failed to deserialize the JSON body into the target type"),
                _ => (400, "Failed to parse the request body as JSON"),
            };
            Verdict::plain(status, &format!("{what}: {error}"))
        })
    }

    /// Whether this is the streaming form.
    pub(super) fn is_streaming(&self) -> bool {
        self.event.is_some() && self.payload.is_some()
    }

    /// The state that counts: an explicit one, else the payload's of a chat event, which is delta if it has none.
    /// `None` if there is neither state nor event.
    pub(super) fn effective_state(&self) -> Option<State> {
        if self.state.is_some() || !self.is_streaming() {
            return self.state;
        }
        let word = self.payload.as_ref().and_then(|payload| payload.get("state")).and_then(Value::as_str);
        let of_chat = self.event.as_deref() == Some("chat");
        Some(word.filter(|_| of_chat).and_then(State::of).unwrap_or(State::Delta))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn state(json: &str) -> Option<State> {
        Body::decode(json.as_bytes()).unwrap().effective_state()
    }

    #[test]
    fn the_effective_state() {
        assert_eq!(state(r#"{"run_id":"r","state":"final","x":1}"#), Some(State::Final));
        assert_eq!(state(r#"{"run_id":"r"}"#), None);
        assert_eq!(state(r#"{"run_id":"r","event":"chat"}"#), None);
        assert_eq!(state(r#"{"run_id":"r","event":"chat","payload":{}}"#), Some(State::Delta));
        assert_eq!(state(r#"{"run_id":"r","event":"chat","payload":{"state":"error"}}"#), Some(State::Error));
        assert_eq!(state(r#"{"run_id":"r","event":"agent","payload":{"state":"error"}}"#), Some(State::Delta));
    }

    #[test]
    fn what_is_no_json_is_400_and_what_is_of_another_form_422() {
        let status = |json: &str| Body::decode(json.as_bytes()).unwrap_err().status;
        assert_eq!(status("{"), 400);
        assert_eq!(status("x"), 400);
        for json in [
            r#"{"run_id":"r","state":"failed"}"#,
            r#"{"state":"final"}"#,
            r#"{"run_id":1}"#,
            r#"{"run_id":"r","seq":-1}"#,
            r#"{"run_id":"r","event":"chat","payload":[]}"#,
            "[]",
        ] {
            assert_eq!(status(json), 422, "{json}");
        }
    }
}
