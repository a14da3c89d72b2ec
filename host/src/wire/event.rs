//! What a run says while it works, in the words of protocol 2.0 (`sse-2.0.md`).

use serde_json::{Value, json};

use super::outcome::Outcome;

/// One event of a run, before it has a sequence number.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// `agent` / `lifecycle` / `start`: the bot begins.
    Started,
    /// `agent` / `lifecycle` / `end`: the bot has ended; the terminal follows.
    Ended,
    /// `chat` / `delta`: a piece of the reply.
    Delta(String),
    /// `agent` / `thinking`: a piece of thought.
    Thinking(String),
    /// `agent` / `tool` / `start`.
    ToolStarted {
        /// The call's id, unique in the run.
        call: String,
        /// The tool's name.
        name: String,
        /// The arguments: any JSON value.
        arguments: Value,
    },
    /// `agent` / `tool` / `update`.
    ToolUpdated {
        /// The call's id.
        call: String,
        /// The tool's name, if its start was seen.
        name: Option<String>,
        /// What there is so far.
        partial: String,
    },
    /// `agent` / `tool` / `result`.
    ToolFinished {
        /// The call's id.
        call: String,
        /// The tool's name, if its start was seen.
        name: Option<String>,
        /// What came out.
        output: String,
        /// Whether it is an error.
        is_error: bool,
        /// How long it took, in milliseconds, if its start was seen.
        duration_ms: Option<u64>,
    },
    /// `agent` / `phase`.
    Phase {
        /// The phase that ends.
        previous: String,
        /// The phase that begins.
        next: String,
    },
    /// `chat` / `final`, `error` or `aborted`: nothing may follow.
    Terminal(Outcome),
}

/// One event as a line of a run's log: the SSE event's name and its compact JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// `agent` or `chat`.
    pub name: &'static str,
    /// The sequence number, one counter for the whole run, from 1.
    pub seq: u64,
    /// The data object, compact, on one line.
    pub data: String,
    /// Whether this is the run's terminal frame.
    pub terminal: bool,
}

impl Event {
    /// The frame of this event in run `run_id`, as number `seq`, at `ts` (Unix milliseconds).
    #[must_use]
    pub fn to_frame(&self, run_id: &str, seq: u64, ts: u64) -> Frame {
        let (name, mut data) = self.body(ts);
        if let Value::Object(map) = &mut data {
            map.insert("runId".into(), run_id.into());
            map.insert("seq".into(), seq.into());
            map.insert("ts".into(), ts.into());
        }
        Frame { name, seq, data: data.to_string(), terminal: matches!(self, Self::Terminal(_)) }
    }

    fn body(&self, ts: u64) -> (&'static str, Value) {
        match self {
            Self::Started => ("agent", json!({"stream": "lifecycle", "phase": "start"})),
            Self::Ended => ("agent", json!({"stream": "lifecycle", "phase": "end"})),
            // The server's stream parser knows `deltaText`, the public guide says `delta_text`: both are sent.
            Self::Delta(text) => ("chat", json!({"state": "delta", "deltaText": text, "delta_text": text})),
            Self::Thinking(text) => ("agent", json!({"stream": "thinking", "delta": text})),
            Self::ToolStarted { call, name, arguments } => (
                "agent",
                json!({"stream": "tool", "phase": "start", "toolCallId": call, "name": name, "args": arguments}),
            ),
            Self::ToolUpdated { call, name, partial } => {
                let data = json!({"stream": "tool", "phase": "update", "toolCallId": call, "partialResult": partial});
                ("agent", with_name(data, name.as_deref()))
            }
            Self::ToolFinished { call, name, output, is_error, duration_ms } => {
                let mut data = json!({
                    "stream": "tool", "phase": "result", "toolCallId": call, "isError": is_error,
                    "result": {"content": [{"type": "text", "text": output}]},
                });
                if let Some(ms) = duration_ms {
                    data["durationMs"] = (*ms).into();
                }
                ("agent", with_name(data, name.as_deref()))
            }
            Self::Phase { previous, next } => {
                ("agent", json!({"stream": "phase", "fromPhase": previous, "toPhase": next}))
            }
            Self::Terminal(outcome) => ("chat", terminal_body(outcome, ts)),
        }
    }
}

/// A tool's name where it is known: a null would make the server drop the event as badly typed.
fn with_name(mut data: Value, name: Option<&str>) -> Value {
    if let Some(name) = name {
        data["name"] = name.into();
    }
    data
}

/// The `chat` data of an end, without the fields that every frame has. Also the payload of a 2.0 callback.
#[must_use]
pub fn terminal_body(outcome: &Outcome, ts: u64) -> Value {
    match outcome {
        Outcome::Completed { text, stop_reason } => {
            // The server reads the first block only, and an empty text is said by no block at all.
            let content = if text.is_empty() { json!([]) } else { json!([{"type": "text", "text": text}]) };
            let mut data = json!({
                "state": "final",
                "message": {"role": "assistant", "content": content, "timestamp": ts},
            });
            if let Some(reason) = stop_reason {
                data["stopReason"] = reason.as_str().into();
            }
            data
        }
        Outcome::Failed { error } | Outcome::TimedOut { error } => {
            json!({"state": "error", "errorMessage": error.message, "errorKind": error.kind})
        }
        Outcome::Aborted { reason } => json!({"state": "aborted", "stopReason": reason}),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::wire::RunError;

    #[test]
    fn frames_say_it_in_the_protocol_s_words() {
        let call = || "c1".to_owned();
        let cases = [
            (Event::Started, "agent", json!({"stream": "lifecycle", "phase": "start"})),
            (Event::Ended, "agent", json!({"stream": "lifecycle", "phase": "end"})),
            (Event::Delta("a\n".into()), "chat", json!({"state": "delta", "deltaText": "a\n", "delta_text": "a\n"})),
            (Event::Thinking("t".into()), "agent", json!({"stream": "thinking", "delta": "t"})),
            (
                Event::ToolStarted { call: call(), name: "ls".into(), arguments: json!([1]) },
                "agent",
                json!({"stream": "tool", "phase": "start", "toolCallId": "c1", "name": "ls", "args": [1]}),
            ),
            (
                Event::ToolUpdated { call: call(), name: None, partial: "p".into() },
                "agent",
                json!({"stream": "tool", "phase": "update", "toolCallId": "c1", "partialResult": "p"}),
            ),
            (
                Event::ToolFinished {
                    call: call(),
                    name: Some("ls".into()),
                    output: "o".into(),
                    is_error: false,
                    duration_ms: Some(3),
                },
                "agent",
                json!({"stream": "tool", "phase": "result", "toolCallId": "c1", "name": "ls", "isError": false,
                    "durationMs": 3, "result": {"content": [{"type": "text", "text": "o"}]}}),
            ),
            (
                Event::Phase { previous: "a".into(), next: "b".into() },
                "agent",
                json!({"stream": "phase", "fromPhase": "a", "toPhase": "b"}),
            ),
        ];
        for (event, name, mut expected) in cases {
            let frame = event.to_frame("r\"1", 4, 99);
            expected["runId"] = "r\"1".into();
            expected["seq"] = 4.into();
            expected["ts"] = 99.into();
            assert_eq!(serde_json::from_str::<Value>(&frame.data).unwrap(), expected);
            assert_eq!((frame.name, frame.seq, frame.terminal), (name, 4, false));
            assert!(!frame.data.contains('\n'));
        }
    }

    #[test]
    fn ends_are_terminal_and_well_formed() {
        let error = || RunError::new("trap", "it fell");
        let message = |content| json!({"role": "assistant", "content": content, "timestamp": 5});
        let cases = [
            (
                Outcome::Completed { text: "hi".into(), stop_reason: None },
                json!({"state": "final", "message": message(json!([{"type": "text", "text": "hi"}]))}),
            ),
            (
                Outcome::Completed { text: String::new(), stop_reason: Some("length".into()) },
                json!({"state": "final", "message": message(json!([])), "stopReason": "length"}),
            ),
            (
                Outcome::Failed { error: error() },
                json!({"state": "error", "errorMessage": "it fell", "errorKind": "trap"}),
            ),
            (
                Outcome::TimedOut { error: error() },
                json!({"state": "error", "errorMessage": "it fell", "errorKind": "trap"}),
            ),
            (
                Outcome::Aborted { reason: "user_cancelled".into() },
                json!({"state": "aborted", "stopReason": "user_cancelled"}),
            ),
        ];
        for (outcome, mut expected) in cases {
            assert_eq!(terminal_body(&outcome, 5), expected);
            let frame = Event::Terminal(outcome).to_frame("r", 1, 5);
            expected["runId"] = "r".into();
            expected["seq"] = 1.into();
            expected["ts"] = 5.into();
            assert_eq!(serde_json::from_str::<Value>(&frame.data).unwrap(), expected);
            assert!(frame.terminal && frame.name == "chat");
        }
    }
}
