//! The bodies of `/bot/events` (reference, section 5.2).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::terminal_body;
use super::fit;
use super::outcome::{Channel, Outcome};

/// The largest body that the server takes, in bytes.
pub const MAX_BODY: usize = 2 * 1024 * 1024;

/// The most bytes of JSON that a text may take in a body.
const MAX_TEXT: usize = MAX_BODY - fit::AROUND;

/// One POST to `/bot/events`: its event id stays the same over all retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackBody {
    /// `X-BCN-Event-Id`.
    pub event_id: String,
    /// The body, JSON.
    pub json: String,
}

/// The POSTs that tell the server of a run's end, in order; empty for a run whose channel is SSE.
///
/// A reply too large for one body goes, in protocol 2.0, as `delta` events and a final with no text; in 1.0, which has
/// no deltas, it is cut and says so (the transcript has the whole). `new_event_id` gives a fresh id a body.
#[must_use]
pub fn bodies(
    channel: Channel,
    run_id: &str,
    outcome: &Outcome,
    now: u64,
    mut new_event_id: impl FnMut() -> String,
) -> Vec<CallbackBody> {
    let bodies = match channel {
        Channel::Sse => Vec::new(),
        Channel::CallbackV1 => vec![legacy(run_id, outcome)],
        Channel::CallbackV2 => streaming(run_id, outcome, now),
    };
    bodies.into_iter().map(|body| CallbackBody { event_id: new_event_id(), json: body.to_string() }).collect()
}

fn state(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "final",
        Outcome::Failed { .. } | Outcome::TimedOut { .. } => "error",
        Outcome::Aborted { .. } => "aborted",
    }
}

fn legacy(run_id: &str, outcome: &Outcome) -> Value {
    let mut text = match outcome {
        Outcome::Completed { text, .. } => text.clone(),
        Outcome::Failed { error } | Outcome::TimedOut { error } => error.message.clone(),
        Outcome::Aborted { reason } => reason.clone(),
    };
    fit::cut(&mut text, MAX_TEXT);
    json!({"run_id": run_id, "seq": 1, "state": state(outcome), "message": {"text": text}})
}

fn streaming(run_id: &str, outcome: &Outcome, now: u64) -> Vec<Value> {
    let mut end = fit::terminal(outcome);
    let mut payloads = Vec::new();
    if let (Outcome::Completed { text, .. }, Outcome::Completed { text: kept, .. }) = (outcome, &mut end)
        && fit::escaped_len(text) > MAX_TEXT
    {
        kept.clear();
        // One spelling only, the guide's: here the server knows both, and a text sent twice halves what fits.
        let delta = |piece| ("delta", json!({"state": "delta", "delta_text": piece}));
        payloads.extend(fit::pieces(text, MAX_TEXT).map(delta));
    }
    payloads.push((state(&end), terminal_body(&end, now)));
    let body = |(seq, (state, mut payload)): (u64, (&str, Value))| {
        payload["runId"] = run_id.into();
        payload["seq"] = seq.into();
        payload["ts"] = now.into();
        json!({"run_id": run_id, "seq": seq, "event": "chat", "state": state, "payload": payload})
    };
    (1..).zip(payloads).map(body).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;
    use crate::wire::RunError;

    fn read(channel: Channel, outcome: &Outcome) -> Vec<Value> {
        let mut n = 0;
        let list = bodies(channel, "run-1", outcome, 9, || {
            n += 1;
            format!("e{n}")
        });
        for (i, body) in list.iter().enumerate() {
            assert_eq!(body.event_id, format!("e{}", i + 1));
            assert!(body.json.len() <= MAX_BODY);
        }
        list.iter().map(|body| serde_json::from_str(&body.json).unwrap()).collect()
    }

    fn completed(text: &str) -> Outcome {
        Outcome::Completed { text: text.into(), stop_reason: Some("stop".into()) }
    }

    #[test]
    fn the_form_of_1_0() {
        let error = || RunError::new("trap", "it fell");
        let cases = [
            (completed("hi"), "final", "hi"),
            (Outcome::Failed { error: error() }, "error", "it fell"),
            (Outcome::TimedOut { error: error() }, "error", "it fell"),
            (Outcome::Aborted { reason: "user_cancelled".into() }, "aborted", "user_cancelled"),
        ];
        for (outcome, state, text) in cases {
            let expected = json!({"run_id": "run-1", "seq": 1, "state": state, "message": {"text": text}});
            assert_eq!(read(Channel::CallbackV1, &outcome), [expected]);
            assert_eq!(read(Channel::Sse, &outcome), [] as [Value; 0]);
        }
    }

    #[test]
    fn the_streaming_form_of_2_0() {
        let expected = json!({
            "run_id": "run-1", "seq": 1, "event": "chat", "state": "final",
            "payload": {
                "runId": "run-1", "seq": 1, "ts": 9, "state": "final", "stopReason": "stop",
                "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "timestamp": 9},
            },
        });
        assert_eq!(read(Channel::CallbackV2, &completed("hi")), [expected]);
        let failed = read(Channel::CallbackV2, &Outcome::TimedOut { error: RunError::new("timeout", "too late") });
        assert_eq!(failed[0]["state"], "error");
        assert_eq!(failed[0]["payload"]["errorMessage"], "too late");
        assert_eq!(failed[0]["payload"]["errorKind"], "timeout");
    }

    #[test]
    fn a_cut_reply_says_so() {
        let body = &read(Channel::CallbackV1, &completed(&"é".repeat(MAX_BODY)))[0];
        let text = body["message"]["text"].as_str().unwrap();
        assert!(text.starts_with("éé") && text.ends_with(&format!("of {} bytes]", 2 * MAX_BODY)));
        assert!(text.len() > MAX_TEXT - 200);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn every_body_fits_and_nothing_is_lost(
            parts in proptest::collection::vec(
                prop_oneof![Just("\0"), Just("\""), Just("\r\n"), Just("𝄞"), Just("word ")], 1..6),
            times in 1..600_000_usize,
            id in "\\PC{0,120}",
        ) {
            let text = parts.concat().repeat(times);
            for channel in [Channel::CallbackV1, Channel::CallbackV2] {
                for outcome in [completed(&text), Outcome::Failed { error: RunError::new("x", text.clone()) },
                    Outcome::Aborted { reason: text.clone() }]
                {
                    let list = bodies(channel, &id, &outcome, u64::MAX, String::new);
                    prop_assert!(list.iter().all(|body| body.json.len() <= MAX_BODY));
                }
            }
            let mut all = String::new();
            let bodies = read(Channel::CallbackV2, &completed(&text));
            for (seq, body) in (1_u64..).zip(&bodies) {
                prop_assert_eq!(&body["seq"], seq);
                let payload = &body["payload"];
                prop_assert_eq!(&payload["seq"], seq);
                prop_assert_eq!(&payload["state"], &body["state"]);
                prop_assert_eq!(body["state"] == "final", seq as usize == bodies.len());
                all.push_str(payload["delta_text"].as_str().unwrap_or_default());
                all.push_str(payload["message"]["content"][0]["text"].as_str().unwrap_or_default());
            }
            prop_assert!(all == text);
        }
    }
}
