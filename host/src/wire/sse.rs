//! Server-sent events: writing frames, and reading them as the coordination server does (reference, section 4.1).

use bytes::Bytes;

use super::event::Frame;

/// The largest frame the server takes, separator included, in bytes.
pub const MAX_FRAME: usize = 8 * 1024 * 1024;

/// A comment that keeps the connection alive.
pub const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The frame as bytes: `event:`, `id:`, one `data:` line, and a blank line.
#[must_use]
pub fn encode(frame: &Frame) -> Bytes {
    let mut text = String::with_capacity(frame.data.len() + 64);
    text.push_str("event: ");
    text.push_str(frame.name);
    text.push_str("\nid: ");
    text.push_str(&frame.seq.to_string());
    // Compact JSON is one line; another text would be put together again by the reader.
    for line in frame.data.split('\n') {
        text.push_str("\ndata: ");
        text.push_str(line);
    }
    text.push_str("\n\n");
    text.into()
}

/// One event as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The value of `event:`; `message` when there was none.
    pub name: String,
    /// The value of `id:`, if it was a number.
    pub id: Option<u64>,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// Cuts a byte stream into events by the server's rules. Comments, unknown fields and frames without `data:` are
/// passed over.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// No separator begins before this place of the buffer.
    searched: usize,
    /// A frame was too large.
    broken: bool,
}

/// A frame, or a buffer with no separator in it, is over [`MAX_FRAME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than 8 MiB")]
pub struct FrameTooLarge;

impl Decoder {
    /// Takes the next bytes and gives the events that they complete.
    ///
    /// # Errors
    /// [`FrameTooLarge`]; the stream is of no use after it. Events that stood before the large frame in the same
    /// bytes come first: the error is then the next call's, and [`Decoder::is_broken`] says so.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Received>, FrameTooLarge> {
        let mut events = Vec::new();
        if !self.broken {
            self.buffer.extend_from_slice(bytes);
            self.cut(&mut events);
        }
        if self.broken && events.is_empty() {
            return Err(FrameTooLarge);
        }
        Ok(events)
    }

    /// Whether a frame was too large: nothing more will come.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// What is left when the stream ends: the server takes it as one more frame.
    #[must_use]
    pub fn finish(self) -> Option<Received> {
        if self.broken { None } else { parse(&self.buffer) }
    }

    fn cut(&mut self, events: &mut Vec<Received>) {
        let mut start = 0;
        while let Some((at, len)) = separator(&self.buffer, self.searched) {
            let end = at + len;
            if end - start > MAX_FRAME {
                self.broken = true;
                break;
            }
            events.extend(self.buffer.get(start..at).and_then(parse));
            start = end;
            self.searched = end;
        }
        // What is moved here came with this feed: a frame that grows over many feeds is not moved at all.
        self.buffer.drain(..start);
        // The last three bytes may begin a separator.
        self.searched = self.buffer.len().saturating_sub(3);
        if self.broken || self.buffer.len() > MAX_FRAME {
            self.broken = true;
            self.buffer = Vec::new();
        }
    }
}

/// The first LF LF or CRLF CRLF at or after `from`: where it begins, and its length.
fn separator(buffer: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while let Some(found) = buffer.get(at..)?.iter().position(|b| *b == b'\n' || *b == b'\r') {
        at += found;
        let rest = buffer.get(at..)?;
        if rest.starts_with(b"\n\n") {
            return Some((at, 2));
        }
        if rest.starts_with(b"\r\n\r\n") {
            return Some((at, 4));
        }
        at += 1;
    }
    None
}

fn parse(frame: &[u8]) -> Option<Received> {
    let frame = String::from_utf8_lossy(frame);
    let (mut name, mut id) = (None, None);
    let mut data: Option<String> = None;
    for line in frame.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let Some((field, value)) = line.split_once(':') else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = Some(value.to_owned()),
            "id" => id = value.parse().ok(),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    Some(Received { name: name.unwrap_or_else(|| "message".into()), id, data: data? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::wire::Event;

    fn all(bytes: &[u8], chunk: usize) -> Vec<Received> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in bytes.chunks(chunk) {
            events.extend(decoder.feed(part).unwrap());
        }
        events.extend(decoder.finish());
        events
    }

    fn received(name: &str, id: Option<u64>, data: &str) -> Received {
        Received { name: name.into(), id, data: data.into() }
    }

    #[test]
    fn reads_as_the_server_does() {
        let cases: &[(&[u8], &[Received])] = &[
            (b"event: chat\nid: 7\ndata: {}\n\n", &[received("chat", Some(7), "{}")]),
            (b"event:chat\r\nid:x\r\ndata:  {}\r\n\r\n", &[received("chat", None, " {}")]),
            (b": heartbeat\n\ndata: a\n: c\ndata: b\n\n", &[received("message", None, "a\nb")]),
            (b"event: ping\n\nretry: 3\n\ndata\n\n", &[]),
            (b"data:\n\n", &[received("message", None, "")]),
            (b"data: last", &[received("message", None, "last")]),
            (b"\n\n\ndata: x\n\n\n", &[received("message", None, "x")]),
            // A mixed separator is none: one frame, with an empty line in it.
            (b"data: a\n\r\ndata: b\n\n", &[received("message", None, "a\nb")]),
            (b"data: a\r\rdata: b\n\n", &[received("message", None, "a\r\rdata: b")]),
            (b"data: \xff\n\n", &[received("message", None, "\u{fffd}")]),
        ];
        for (bytes, expected) in cases {
            for chunk in [1, 2, 3, 1000] {
                assert_eq!(all(bytes, chunk), *expected, "{:?}", String::from_utf8_lossy(bytes));
            }
        }
    }

    #[test]
    fn the_limit_is_the_server_s() {
        let frame = |len: usize| [b"data: ".as_slice(), &vec![b'x'; len - 8], b"\n\n"].concat();
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(&frame(MAX_FRAME)).unwrap().len(), 1);
        assert_eq!(decoder.feed(&frame(MAX_FRAME + 1)), Err(FrameTooLarge));
        assert_eq!(decoder.feed(b"data: x\n\n"), Err(FrameTooLarge));

        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(&vec![b'x'; MAX_FRAME]), Ok(Vec::new()));
        assert_eq!(decoder.feed(b"x"), Err(FrameTooLarge));

        // What came whole before the large frame is not lost.
        let mut decoder = Decoder::default();
        let both = [b"data: x\n\n".as_slice(), &frame(MAX_FRAME + 1), b"data: y\n\n"].concat();
        assert_eq!(decoder.feed(&both), Ok(vec![received("message", None, "x")]));
        assert!(decoder.is_broken());
        assert_eq!(decoder.feed(b""), Err(FrameTooLarge));
        assert_eq!(decoder.finish(), None);
    }

    #[test]
    fn a_large_frame_in_small_pieces_takes_linear_time() {
        let bytes = [b"data: ".as_slice(), &vec![b'x'; MAX_FRAME - 8], b"\n\n"].concat();
        let began = Instant::now();
        assert_eq!(all(&bytes, 16).len(), 1);
        // Quadratic would be half a million feeds of some megabytes each: hours.
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn any_text_survives(texts in proptest::collection::vec(any::<String>(), 1..5), chunk in 1..40_usize) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (seq, text) in (1..).zip(&texts) {
                let frame = Event::Delta(text.clone()).to_frame("r", seq, 5);
                bytes.extend_from_slice(&encode(&frame));
                bytes.extend_from_slice(HEARTBEAT);
                prop_assert!(!frame.data.contains(['\n', '\r']));
                let value: serde_json::Value = serde_json::from_str(&frame.data).unwrap();
                prop_assert_eq!(value["deltaText"].as_str(), Some(text.as_str()));
                expected.push(received("chat", Some(seq), &frame.data));
            }
            prop_assert_eq!(all(&bytes, chunk), expected);
        }

        #[test]
        fn any_split_gives_the_same(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b"\r\n".to_vec()), Just(b"\n\n".to_vec()),
                    Just(b"\r\n\r\n".to_vec()), Just(b"data:".to_vec()), Just(b"event: ".to_vec()), Just(b"id: 4".to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(1..6_usize, 1..20),
        ) {
            let bytes = pieces.concat();
            let whole = all(&bytes, bytes.len().max(1));
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle().take(bytes.len()) {
                let (part, after) = rest.split_at((*cut).min(rest.len()));
                events.extend(decoder.feed(part).unwrap());
                rest = after;
            }
            events.extend(decoder.finish());
            prop_assert_eq!(events, whole);
        }
    }
}
