//! What a run says, as server-sent events.

use avernest::wire::sse::{Decoder, HEARTBEAT, MAX_FRAME, Received, encode};
use avernest::wire::{Event, Outcome, RunError, fit};
use serde_json::Value;

/// The longest id that the envelope takes.
const MAX_ID: usize = 512;
/// The most bytes of text that are tried: control characters take six times as much, which is over one event's bound.
const MAX_TEXT: usize = 180_000;

/// Any events make frames within the server's bound, each of exactly its own lines, whatever is in their texts; they are
/// read back whole, however the bytes are cut. The rest of the input is read as a stream of somebody else's.
pub fn sse_writer(data: &[u8]) {
    let mut input = Input { rest: data, room: MAX_TEXT };
    let step = usize::from(input.byte()) + 1;
    let mut run_id = input.text();
    run_id.truncate(run_id.floor_char_boundary(MAX_ID));
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..input.byte() % 12 {
        for event in fitting(input.event()) {
            let seq = expected.len() as u64 + 1;
            expected.push(written(&event, &run_id, seq, &mut bytes));
        }
        if input.byte() & 1 == 1 {
            bytes.extend_from_slice(HEARTBEAT);
        }
    }
    // Byte by byte only what is not long.
    let wide = step * (1 + bytes.len() / 50_000);
    assert!(read(&bytes, wide) == expected, "what is read is not what was written");

    let foreign = input.rest;
    assert_eq!(read(foreign, step), read(foreign, foreign.len().max(1)));
}

/// The event as the run's log takes it.
fn fitting(event: Event) -> Vec<Event> {
    let whole = match &event {
        Event::Delta(text) => Some(text.clone()),
        _ => None,
    };
    let events = fit::events(event);
    assert!(!events.is_empty());
    if let Some(whole) = whole {
        let text: String = events.iter().map(|e| if let Event::Delta(text) = e { text.as_str() } else { "" }).collect();
        assert!(text == whole, "a divided delta is not the text");
    }
    events
}

fn written(event: &Event, run_id: &str, seq: u64, bytes: &mut Vec<u8>) -> Received {
    let frame = event.to_frame(run_id, seq, 1_700_000_000_000);
    assert!(!frame.data.contains(['\n', '\r']), "{:?}", frame.data);
    assert_eq!(frame.terminal, matches!(event, Event::Terminal(_)));
    let data: Value = serde_json::from_str(&frame.data).unwrap_or_default();
    assert!(data["runId"] == run_id && data["seq"] == seq, "{data}");

    let encoded = encode(&frame);
    let bound = if frame.terminal { MAX_FRAME } else { fit::MAX_EVENT };
    assert!(encoded.len() <= bound, "a frame of {} bytes", encoded.len());
    let lines: Vec<&[u8]> = encoded.split(|byte| *byte == b'\n' || *byte == b'\r').collect();
    let begins =
        [format!("event: {}", frame.name), format!("id: {seq}"), "data: {".into(), String::new(), String::new()];
    assert!(
        lines.len() == begins.len()
            && lines.iter().zip(&begins).all(|(line, begin)| line.starts_with(begin.as_bytes())),
        "{:?}",
        String::from_utf8_lossy(&encoded)
    );
    bytes.extend_from_slice(&encoded);
    Received { name: frame.name.into(), id: Some(seq), data: frame.data }
}

fn read(bytes: &[u8], step: usize) -> Vec<Received> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for part in bytes.chunks(step) {
        match decoder.feed(part) {
            Ok(more) => events.extend(more),
            Err(error) => assert!(bytes.len() > MAX_FRAME, "{error}"),
        }
    }
    events.extend(decoder.finish());
    events
}

/// Takes values off the input; past its end all is zero.
struct Input<'a> {
    rest: &'a [u8],
    /// How much longer texts may become.
    room: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// A length, then so many bytes; after 255 they may be repeated, to come near the bounds.
    fn text(&mut self) -> String {
        let len = self.byte();
        let more = if len == u8::MAX { self.byte() } else { 0 };
        let times = if more >= 0xf0 { usize::from(more) << 3 } else { 1 };
        let (text, rest) = self.rest.split_at(usize::from(len).min(self.rest.len()));
        self.rest = rest;
        let text = String::from_utf8_lossy(text);
        let times = times.min(self.room / text.len().max(1));
        self.room -= times * text.len();
        text.repeat(times)
    }

    fn word(&mut self) -> Option<String> {
        (self.byte() & 1 == 1).then(|| self.text())
    }

    fn event(&mut self) -> Event {
        match self.byte() % 9 {
            0 => Event::Started,
            1 => Event::Ended,
            2 => Event::Delta(self.text()),
            3 => Event::Thinking(self.text()),
            4 => {
                let (call, name, text) = (self.text(), self.text(), self.text());
                let arguments = serde_json::from_str(&text).unwrap_or(Value::String(text));
                Event::ToolStarted { call, name, arguments }
            }
            5 => Event::ToolUpdated { call: self.text(), name: self.word(), partial: self.text() },
            6 => Event::ToolFinished {
                call: self.text(),
                name: self.word(),
                output: self.text(),
                is_error: self.byte() & 1 == 1,
                duration_ms: (self.byte() & 1 == 1).then_some(u64::MAX),
            },
            7 => Event::Phase { previous: self.text(), next: self.text() },
            _ => Event::Terminal(self.outcome()),
        }
    }

    fn outcome(&mut self) -> Outcome {
        let kind = self.byte() % 4;
        let text = self.text();
        let error = || RunError::new("trap", text.clone());
        match kind {
            0 => Outcome::Completed { text, stop_reason: self.word() },
            1 => Outcome::Failed { error: error() },
            2 => Outcome::TimedOut { error: error() },
            _ => Outcome::Aborted { reason: text },
        }
    }
}
