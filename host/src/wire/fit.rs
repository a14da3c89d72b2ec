//! Making what a run says fit: the server takes frames of 8 MiB and callbacks of 2 MiB, and a bot may say more.

use std::fmt::Write as _;

use serde_json::Value;

use super::event::Event;
use super::outcome::Outcome;
use super::sse::MAX_FRAME;

/// The most bytes of JSON that one event other than a final takes.
pub const MAX_EVENT: usize = 1024 * 1024;

/// Room for what stands around a text in a frame or callback: names, numbers, a run id of 512 bytes at its longest
/// spelling, a stop reason or names of [`MAX_WORD`].
pub(super) const AROUND: usize = 32 * 1024;

/// The most bytes that a stop reason or the name of a tool, call or phase takes in JSON.
const MAX_WORD: usize = 4 * 1024;

/// The most bytes that an error's sentence takes in JSON.
const MAX_SENTENCE: usize = 64 * 1024;

/// How many bytes `text` takes in JSON, without its quotes.
#[must_use]
pub fn escaped_len(text: &str) -> usize {
    text.bytes().map(escaped_byte).sum()
}

/// As serde_json writes it: control characters are the only ones it spells at length.
fn escaped_byte(b: u8) -> usize {
    match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// How many bytes of `text`, whole characters and at least one, take `max` bytes in JSON at most.
fn fitting(text: &str, max: usize) -> usize {
    let (mut used, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        used += if c.is_ascii() { escaped_byte(c as u8) } else { c.len_utf8() };
        if used > max && at > 0 {
            return end;
        }
        end = at + c.len_utf8();
    }
    end
}

/// `text` in pieces that take `max` bytes in JSON at most each, never cut inside a character.
pub(super) fn pieces(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at_checked(fitting(rest, max)).filter(|(piece, _)| !piece.is_empty())?;
        rest = after;
        Some(piece)
    })
}

/// The rest of a reply, of which `streamed` bytes have gone out as deltas, as further deltas: each makes a frame of at
/// most [`MAX_EVENT`] bytes. For a text of any size, `delta_pieces(text, 0)`.
pub fn delta_pieces(text: &str, streamed: usize) -> impl Iterator<Item = &str> {
    // A delta's text is twice in its frame.
    pieces(text.get(streamed..).unwrap_or_default(), (MAX_EVENT - AROUND) / 2)
}

/// Whether the final with this whole text is a frame that the server takes. If not, the text goes as deltas before it,
/// and [`terminal`] leaves it out of the final: the server then keeps the deltas.
#[must_use]
pub fn final_fits(text: &str) -> bool {
    escaped_len(text) <= MAX_FRAME - AROUND
}

/// The end of a run as it fits in one frame: a text that does not is left out, long sentences are cut.
#[must_use]
pub fn terminal(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    match &mut outcome {
        Outcome::Completed { text, stop_reason } => {
            if !final_fits(text) {
                text.clear();
            }
            stop_reason.iter_mut().for_each(|reason| cut(reason, MAX_WORD));
        }
        Outcome::Failed { error } | Outcome::TimedOut { error } => {
            cut(&mut error.kind, MAX_WORD);
            cut(&mut error.message, MAX_SENTENCE);
        }
        Outcome::Aborted { reason } => cut(reason, MAX_WORD),
    }
    outcome
}

/// The event as one or more that fit in a frame each: texts are divided where the server puts them together again,
/// and cut, saying so, where it does not.
#[must_use]
pub fn events(event: Event) -> Vec<Event> {
    const ONE: usize = MAX_EVENT - AROUND;
    match event {
        Event::Delta(text) if escaped_len(&text) > ONE / 2 => {
            delta_pieces(&text, 0).map(|piece| Event::Delta(piece.to_owned())).collect()
        }
        Event::Thinking(text) if escaped_len(&text) > ONE => {
            pieces(&text, ONE).map(|piece| Event::Thinking(piece.to_owned())).collect()
        }
        Event::Terminal(outcome) => vec![Event::Terminal(terminal(&outcome))],
        mut other => {
            match &mut other {
                Event::ToolStarted { call, name, arguments } => {
                    cut(call, MAX_WORD);
                    cut(name, MAX_WORD);
                    let len = arguments.to_string().len();
                    if len > ONE {
                        *arguments = Value::from(format!("[{len} bytes of arguments, too many for one event]"));
                    }
                }
                Event::ToolUpdated { call, name, partial: text }
                | Event::ToolFinished { call, name, output: text, .. } => {
                    cut(call, MAX_WORD);
                    name.iter_mut().for_each(|name| cut(name, MAX_WORD));
                    cut(text, ONE);
                }
                Event::Phase { previous, next } => {
                    cut(previous, MAX_WORD);
                    cut(next, MAX_WORD);
                }
                Event::Started | Event::Ended | Event::Delta(_) | Event::Thinking(_) | Event::Terminal(_) => {}
            }
            vec![other]
        }
    }
}

/// Cuts a text that takes more than `max` bytes in JSON, and says so at its end. `max` is a few hundred at least.
pub(super) fn cut(text: &mut String, max: usize) {
    const NOTE: usize = 100;
    if escaped_len(text) <= max {
        return;
    }
    let whole = text.len();
    text.truncate(fitting(text, max.saturating_sub(NOTE)));
    // Writing to a string does not fail.
    let _ = write!(text, "… [cut here: {} of {whole} bytes]", text.len());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;
    use crate::wire::{RunError, sse};

    /// Texts that grow in JSON, of some megabytes.
    fn heavy() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("\0"),
            Just("\""),
            Just("\n"),
            Just("𝄞"),
            Just("é"),
            Just("ordinary text "),
            Just("\u{7f}")
        ];
        (proptest::collection::vec(part, 1..8), 1..400_000_usize)
            .prop_map(|(parts, times)| parts.concat().repeat(times))
    }

    fn frame_len(event: &Event) -> usize {
        let id = "\0".repeat(super::super::envelope::MAX_ID);
        sse::encode(&event.to_frame(&id, u64::MAX, u64::MAX)).len()
    }

    #[test]
    fn lengths_are_those_of_serde_json() {
        for c in (0..0x250).chain([0x2028, 0xfeff, 0x1d11e]).filter_map(char::from_u32) {
            let text = c.to_string();
            assert_eq!(escaped_len(&text) + 2, serde_json::to_string(&text).unwrap().len(), "{c:?}");
        }
    }

    #[test]
    fn the_rest_of_a_reply() {
        assert_eq!(delta_pieces("abc", 0).collect::<Vec<_>>(), ["abc"]);
        assert_eq!(delta_pieces("aéc", 1).collect::<Vec<_>>(), ["éc"]);
        for streamed in [3, 4, usize::MAX] {
            assert_eq!(delta_pieces("abc", streamed).count(), 0);
        }
        assert_eq!(pieces("𝄞𝄞", 1).collect::<Vec<_>>(), ["𝄞", "𝄞"]);
    }

    #[test]
    fn every_event_fits() {
        let huge = "\0".repeat(2 * MAX_EVENT);
        let text = |times: usize| "\u{1}\"é".repeat(times);
        let events_of = [
            Event::ToolStarted { call: huge.clone(), name: huge.clone(), arguments: Value::from(huge.clone()) },
            Event::ToolUpdated { call: huge.clone(), name: Some(huge.clone()), partial: huge.clone() },
            Event::ToolFinished {
                call: huge.clone(),
                name: Some(huge.clone()),
                output: text(MAX_EVENT),
                is_error: true,
                duration_ms: Some(u64::MAX),
            },
            Event::Phase { previous: huge.clone(), next: huge.clone() },
            Event::Thinking(text(MAX_EVENT)),
            Event::Delta(huge.clone()),
            Event::Terminal(Outcome::Failed { error: RunError::new(&huge, huge.clone()) }),
            Event::Terminal(Outcome::Aborted { reason: huge.clone() }),
        ];
        for event in events_of {
            let fitted = events(event);
            assert!(!fitted.is_empty());
            for event in fitted {
                assert!(frame_len(&event) <= MAX_EVENT);
            }
        }
        let small = Event::ToolUpdated { call: "c".into(), name: None, partial: "p".into() };
        assert_eq!(events(small.clone()), [small]);
        assert_eq!(events(Event::Delta(String::new())), [Event::Delta(String::new())]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn deltas_fit_and_are_the_text(text in heavy(), at in 0..1000_usize) {
            let streamed = text.floor_char_boundary(at);
            let mut all = text[..streamed].to_owned();
            for piece in delta_pieces(&text, streamed) {
                prop_assert!(frame_len(&Event::Delta(piece.to_owned())) <= MAX_EVENT);
                all.push_str(piece);
            }
            prop_assert!(all == text);
        }

        #[test]
        fn finals_fit(text in heavy(), times in 1..3_usize) {
            let outcome = Outcome::Completed { text: text.repeat(times), stop_reason: Some(text) };
            let end = terminal(&outcome);
            prop_assert!(frame_len(&Event::Terminal(end.clone())) <= MAX_FRAME);
            let (Outcome::Completed { text: kept, .. }, Outcome::Completed { text, .. }) = (end, outcome) else { panic!() };
            prop_assert_eq!(kept.is_empty(), !final_fits(&text));
        }
    }
}
