//! Frames: each departure is found, without a socket.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::reader::Reader;
use super::super::violation::Notes;
use super::super::{Outcome, SseEvent, ViolationKind, ViolationKind::*};
use super::provider::{delta, frame, last};
use crate::wire::sse::Decoder;

fn read(frames: &[bytes::Bytes]) -> (Reader, Vec<SseEvent>, Vec<ViolationKind>) {
    let (mut reader, mut decoder, mut notes) = (Reader::default(), Decoder::default(), Notes::new());
    let mut events = Vec::new();
    for bytes in frames {
        for received in decoder.feed(bytes).unwrap() {
            events.extend(reader.take(&received, Duration::ZERO, &mut notes));
        }
    }
    (reader, events, notes.into_iter().map(|note| note.0).collect())
}

fn agent(data: Value) -> bytes::Bytes {
    frame("agent", 1, data)
}

#[test]
fn a_good_run() {
    let frames = [
        frame("agent", 1, json!({"stream": "lifecycle", "phase": "start"})),
        frame("agent", 2, json!({"stream": "thinking", "delta": "hm"})),
        frame("agent", 3, json!({"stream": "tool", "phase": "start", "toolCallId": "1", "name": "n", "args": {}})),
        frame("agent", 4, json!({"stream": "tool", "phase": "update", "toolCallId": "1", "partialResult": "p"})),
        frame(
            "agent",
            5,
            json!({"stream": "tool", "phase": "result", "toolCallId": "1", "name": "n", "isError": false, "result": {"content": []}}),
        ),
        "event: ping\ndata: {\"ts\":1}\n\n".into(),
        ": heartbeat\n\n".into(),
        frame("agent", 6, json!({"stream": "phase", "fromPhase": "a", "toPhase": "b"})),
        frame(
            "interaction",
            7,
            json!({"phase": "requested", "interactionId": "i", "kind": "exec", "command": "ls", "options": [{"decision": "d", "label": "l"}]}),
        ),
        frame("interaction", 8, json!({"phase": "resolved", "interactionId": "i", "kind": "exec", "decision": "d"})),
        frame("chat", 9, json!({"state": "delta", "deltaText": "Hel", "delta_text": "Hel"})),
        delta(10, "lo"),
        frame("agent", 11, json!({"stream": "lifecycle", "phase": "end"})),
        last(12, "Hello!"),
    ];
    let (reader, events, kinds) = read(&frames);
    assert_eq!(kinds, []);
    assert_eq!((events.len(), reader.outcome.unwrap().text()), (13, Some("Hello!")));
    assert_eq!(reader.run_id.as_deref(), Some("p-run"));
}

#[test]
fn single_frames_that_are_dropped() {
    let raw = |text: &str| bytes::Bytes::copy_from_slice(text.as_bytes());
    let cases = [
        (raw("data: {}\n\n"), vec![FrameWithoutName]),
        (raw("event: other\ndata: {}\n\n"), vec![UnknownEvent]),
        (raw("event: chat\ndata: {\n\n"), vec![DataNotJson]),
        (raw("event: chat\ndata: []\n\n"), vec![DataNotJson]),
        (raw("event: agent\ndata: {\"seq\":1,\"ts\":1,\"stream\":\"thinking\",\"text\":\"\"}\n\n"), vec![RunIdMissing]),
        (frame("chat", 1, json!({"state": "done"})), vec![ChatState]),
        (frame("chat", 1, json!({})), vec![ChatState]),
        (agent(json!({"phase": "start"})), vec![AgentStream]),
        (agent(json!({"stream": "dance"})), vec![AgentStream]),
        (agent(json!({"stream": "lifecycle"})), vec![LifecycleShape]),
        (agent(json!({"stream": "thinking"})), vec![ThinkingShape]),
        (agent(json!({"stream": "thinking", "delta": 1})), vec![ThinkingShape]),
        (agent(json!({"stream": "phase", "toPhase": "b"})), vec![PhaseShape]),
        (agent(json!({"stream": "tool", "toolCallId": "1"})), vec![ToolShape]),
        (
            agent(json!({"stream": "tool", "phase": "update", "toolCallId": "1", "name": null, "partialResult": "p"})),
            vec![ToolShape],
        ),
        (agent(json!({"stream": "tool", "phase": "start", "name": "n", "args": {}})), vec![ToolShape]),
        (agent(json!({"stream": "tool", "phase": "start", "toolCallId": "1", "name": "n"})), vec![ToolShape]),
        (agent(json!({"stream": "tool", "phase": "result", "toolCallId": "1", "result": "x"})), vec![ToolShape]),
        (
            frame(
                "interaction",
                1,
                json!({"phase": "requested", "interactionId": "i", "kind": "exec", "command": "ls", "options": []}),
            ),
            vec![InteractionShape; 1],
        ),
        (
            frame(
                "interaction",
                1,
                json!({"phase": "requested", "interactionId": "i", "kind": "ask_user", "questions": [{"questionId": "q"}]}),
            ),
            vec![InteractionShape],
        ),
        (
            frame("interaction", 1, json!({"phase": "requested", "interactionId": "i", "kind": "dance"})),
            vec![InteractionShape],
        ),
        (
            frame(
                "interaction",
                1,
                json!({"phase": "resolved", "interactionId": "i", "kind": "exec", "decision": "d"}),
            ),
            vec![InteractionOrder],
        ),
        (
            frame(
                "interaction",
                1,
                json!({"phase": "requested", "interactionId": "i", "kind": "mode_switch", "title": "x".repeat(300_000), "options": [{"decision": "d", "label": "l"}]}),
            ),
            vec![InteractionLimit],
        ),
    ];
    for (bytes, expected) in cases {
        let (_, events, kinds) = read(std::slice::from_ref(&bytes));
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        assert_eq!(kinds, expected, "{shown}");
        assert!(events.is_empty(), "{shown}");
    }
}

#[test]
fn frames_that_are_taken_but_wrong() {
    let message = |message: Value| frame("chat", 1, json!({"state": "final", "message": message}));
    let block = json!({"type": "text", "text": "t"});
    let cases = [
        (frame("chat", 1, json!({"state": "delta", "delta_text": "lost"})), ChatDelta),
        (frame("chat", 1, json!({"state": "delta", "deltaText": "a", "delta_text": "b"})), ChatDelta),
        (frame("chat", 1, json!({"state": "delta"})), ChatDelta),
        (frame("chat", 1, json!({"state": "error"})), ChatError),
        (frame("chat", 1, json!({"state": "aborted", "stopReason": 1})), ChatField),
        (message(json!("text")), MessageShape),
        (message(json!({"content": [block]})), MessageShape),
        (message(json!({"role": "user", "content": [block]})), MessageShape),
        (message(json!({"role": "assistant", "content": "t"})), MessageShape),
        (message(json!({"role": "assistant", "content": [{"type": "text"}]})), MessageShape),
        (message(json!({"role": "assistant", "content": [block], "timestamp": null})), MessageShape),
        (message(json!({"role": "assistant", "content": [block], "timestamp": -1})), MessageShape),
        (message(json!({"role": "assistant", "content": [block, block]})), SeveralBlocks),
        (frame("chat", 1, json!({"state": "delta", "deltaText": "a", "ts": "now"})), TsMissing),
        (frame("chat", 1, json!({"state": "delta", "deltaText": "a", "runId": ""})), RunIdMissing),
        (frame("chat", 1, json!({"state": "delta", "deltaText": "a", "seq": "1"})), SeqMissing),
        (frame("chat", 7, json!({"state": "delta", "deltaText": "a"})), SeqGap),
        (frame("chat", 7, json!({"state": "delta", "deltaText": "a", "seq": 1})), SeqIdDiffers),
        (agent(json!({"stream": "approval"})), ApprovalSent),
    ];
    for (bytes, expected) in cases {
        let (_, events, kinds) = read(std::slice::from_ref(&bytes));
        assert_eq!((kinds, events.len()), (vec![expected], 1), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn what_the_server_makes_of_wrong_texts() {
    let (reader, _, kinds) =
        read(&[frame("chat", 1, json!({"state": "delta", "delta_text": "lost"})), delta(2, "a"), last(3, "b")]);
    assert_eq!((reader.outcome.unwrap().text(), kinds), (Some("ab"), vec![ChatDelta, FinalNotPrefix]));
    let (reader, _, _) = read(&[agent(json!({"stream": "approval"}))]);
    assert!(matches!(reader.outcome, Some(Outcome::Synthesized { .. })));
    let (reader, _, kinds) = read(&[agent(json!({"stream": "error", "errorMessage": "m", "errorKind": "k"}))]);
    assert_eq!(reader.outcome, Some(Outcome::Error { message: "m".into(), kind: Some("k".into()) }));
    assert_eq!(kinds, []);
}

#[test]
fn the_sequence() {
    let (reader, events, kinds) = read(&[delta(1, "a"), delta(1, "b"), delta(3, "c"), last(2, "ac")]);
    assert_eq!((events.len(), reader.text.as_str(), reader.outcome), (2, "ac", None));
    assert_eq!(kinds, [SeqNotRising, SeqGap, SeqNotRising]);
    let (_, events, kinds) = read(&[last(1, "a"), delta(2, "b"), last(3, "c")]);
    assert_eq!((events.len(), kinds), (1, vec![AfterTerminal, AfterTerminal]));
    let other = frame("chat", 2, json!({"state": "delta", "deltaText": "b", "runId": "other"}));
    assert_eq!(read(&[delta(1, "a"), other]).2, [RunIdChanged]);
}

#[test]
fn interactions_in_order() {
    let ask = |seq: u64, id: &str| {
        frame(
            "interaction",
            seq,
            json!({"phase": "requested", "interactionId": id, "kind": "mode_switch", "options": [{"decision": "d", "label": "l"}]}),
        )
    };
    let done = |seq: u64, id: &str, kind: &str| {
        frame("interaction", seq, json!({"phase": "resolved", "interactionId": id, "kind": kind, "decision": "d"}))
    };
    assert_eq!(read(&[ask(1, "i"), ask(2, "i")]).2, [InteractionOrder]);
    assert_eq!(read(&[ask(1, "i"), done(2, "i", "exec")]).2, [InteractionOrder]);
    assert_eq!(read(&[ask(1, "i"), done(2, "i", "mode_switch"), done(3, "i", "mode_switch")]).2, [InteractionOrder]);
    let many: Vec<_> = (1..=33).map(|seq| ask(seq, &seq.to_string())).collect();
    assert_eq!(read(&many).2, [InteractionLimit]);
}

proptest! {
    /// However a right stream is cut, nothing is noted and the reply is the deltas' text.
    #[test]
    fn any_cut_of_a_good_stream(texts in proptest::collection::vec("\\PC{0,12}", 1..6), piece in 1..50usize, crlf: bool) {
        let mut bytes = Vec::new();
        for (seq, text) in (1..).zip(&texts) {
            bytes.extend_from_slice(&delta(seq, text));
        }
        bytes.extend_from_slice(&last(texts.len() as u64 + 1, &texts.concat()));
        if crlf {
            bytes = String::from_utf8(bytes).unwrap().replace('\n', "\r\n").into_bytes();
        }
        let pieces: Vec<_> = bytes.chunks(piece).map(bytes::Bytes::copy_from_slice).collect();
        let (reader, events, kinds) = read(&pieces);
        prop_assert_eq!(kinds, vec![]);
        prop_assert_eq!(events.len(), texts.len() + 1);
        let outcome = reader.outcome.unwrap();
        prop_assert_eq!(outcome.text().unwrap(), texts.concat());
    }

    /// No bytes bring the reader down.
    #[test]
    fn any_data(name in "chat|agent|interaction|ping|message", data in "\\PC{0,60}", keys in proptest::collection::vec("state|stream|phase|kind|message|deltaText|seq|runId|questions|options", 0..6)) {
        let odd: Value = keys.iter().map(|key| (key.clone(), json!([{"x": data}]))).collect::<serde_json::Map<_, _>>().into();
        for data in [data.clone(), odd.to_string()] {
            let _ = read(&[format!("event: {name}\ndata: {data}\n\n").into()]);
        }
    }
}
