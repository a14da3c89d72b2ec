//! The events of one run: written by the run, read by any number of streams, each from the start.
//!
//! Bounded. Past the bound progress is not kept any more, and so not streamed; the final still carries the whole
//! text, because the deltas that were kept are a prefix of it.

use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::watch;

use crate::clock::now_ms;
use crate::wire::{Event, Outcome, fit, sse};

/// How much a log keeps.
#[derive(Debug, Clone, Copy)]
pub struct LogBounds {
    /// Events.
    pub events: usize,
    /// Bytes of frames.
    pub bytes: usize,
}

/// The log of one run.
#[derive(Debug)]
pub struct EventLog {
    run_id: String,
    bounds: LogBounds,
    inner: Mutex<Inner>,
    /// How many frames there are, and whether the last is the terminal.
    progress: watch::Sender<Progress>,
}

/// How far a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Frames written.
    pub frames: usize,
    /// Nothing follows.
    pub ended: bool,
}

#[derive(Debug, Default)]
struct Inner {
    frames: Vec<Bytes>,
    bytes: usize,
    /// Everything the bot streamed, kept or not.
    streamed: String,
    /// How much of it is in frames.
    framed: usize,
    /// The bound is reached.
    full: bool,
    ended: bool,
}

impl EventLog {
    /// An empty log.
    #[must_use]
    pub fn new(run_id: &str, bounds: LogBounds) -> Self {
        Self {
            run_id: run_id.to_owned(),
            bounds,
            inner: Mutex::default(),
            progress: watch::Sender::new(Progress::default()),
        }
    }

    /// The log of a run that ended in an earlier life of the host: start, end and terminal.
    #[must_use]
    pub fn of_ended(run_id: &str, outcome: &Outcome) -> Self {
        let log = Self::new(run_id, LogBounds { events: usize::MAX, bytes: usize::MAX });
        log.push(Event::Started);
        log.end(outcome);
        log
    }

    /// Adds an event. Dropped once the log has ended, and past the bounds.
    pub fn push(&self, event: Event) {
        let mut inner = self.lock();
        if inner.ended || event == Event::Delta(String::new()) {
            return;
        }
        if let Event::Delta(text) = &event {
            inner.streamed.push_str(text);
        }
        if !inner.full {
            for event in fit::events(event) {
                if let Event::Delta(piece) = &event {
                    inner.framed += piece.len();
                }
                self.append(&mut inner, &event);
            }
        }
        if !inner.full && (inner.frames.len() >= self.bounds.events || inner.bytes >= self.bounds.bytes) {
            inner.full = true;
            tracing::warn!(
                run = ?self.run_id,
                events = inner.frames.len(),
                bytes = inner.bytes,
                "the run's event log is full (runs.event_log_events, runs.event_log_mb): no more progress is streamed, the final will have the whole text"
            );
        }
        self.publish(&inner);
    }

    /// The reply's whole text, made of what was streamed and what the bot returned: nothing returned means that the
    /// deltas are the reply; a text that does not begin with them is put behind them, after a blank line. The server
    /// would append it too.
    #[must_use]
    pub fn compose(&self, returned: &str) -> String {
        let inner = self.lock();
        if inner.streamed.is_empty() || returned.starts_with(&inner.streamed) {
            returned.to_owned()
        } else if returned.is_empty() {
            inner.streamed.clone()
        } else {
            format!("{}\n\n{returned}", inner.streamed)
        }
    }

    /// Ends the log with lifecycle `end` and the terminal. Only the first end counts.
    pub fn end(&self, outcome: &Outcome) {
        let mut inner = self.lock();
        if inner.ended {
            return;
        }
        if inner.frames.is_empty() {
            // It ended before its turn came: a stream has a beginning all the same.
            self.append(&mut inner, &Event::Started);
        }
        if let Outcome::Completed { text, .. } = outcome
            && !fit::final_fits(text)
        {
            // Too large for one frame: the rest goes as deltas, and a final without text stands for all of them.
            for piece in fit::delta_pieces(text, inner.framed) {
                self.append(&mut inner, &Event::Delta(piece.to_owned()));
            }
        }
        self.append(&mut inner, &Event::Ended);
        self.append(&mut inner, &Event::Terminal(fit::terminal(outcome)));
        inner.ended = true;
        inner.streamed = String::new();
        self.publish(&inner);
    }

    /// The frames from number `from` (counted from 0), at most about `max_bytes` of them but at least one, and how
    /// many they are.
    #[must_use]
    pub fn read(&self, from: usize, max_bytes: usize) -> (Vec<Bytes>, Progress) {
        let inner = self.lock();
        let mut out = Vec::new();
        let mut size = 0;
        for frame in inner.frames.iter().skip(from) {
            if !out.is_empty() && size + frame.len() > max_bytes {
                break;
            }
            size += frame.len();
            out.push(frame.clone());
        }
        (out, Progress { frames: inner.frames.len(), ended: inner.ended })
    }

    /// Tells when there is more.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Bytes of frames held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn append(&self, inner: &mut Inner, event: &Event) {
        let seq = inner.frames.len() as u64 + 1;
        let frame = sse::encode(&event.to_frame(&self.run_id, seq, now_ms()));
        inner.bytes += frame.len();
        inner.frames.push(frame);
    }

    fn publish(&self, inner: &Inner) {
        self.progress.send_replace(Progress { frames: inner.frames.len(), ended: inner.ended });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing in here can leave it half done, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::sse::Decoder;

    const WIDE: LogBounds = LogBounds { events: 1000, bytes: 1 << 24 };

    fn completed(text: &str) -> Outcome {
        Outcome::Completed { text: text.into(), stop_reason: None }
    }

    fn events(log: &EventLog) -> Vec<serde_json::Value> {
        let mut decoder = Decoder::default();
        let (frames, _) = log.read(0, usize::MAX);
        frames.iter().flat_map(|f| decoder.feed(f).unwrap()).map(|e| serde_json::from_str(&e.data).unwrap()).collect()
    }

    #[test]
    fn numbers_frames_without_gaps_and_ends_once() {
        let log = EventLog::new("r1", WIDE);
        log.push(Event::Started);
        log.push(Event::Delta("a".into()));
        log.push(Event::Delta(String::new()));
        log.end(&completed("ab"));
        log.push(Event::Delta("late".into()));
        log.end(&Outcome::Aborted { reason: "late".into() });
        let all = events(&log);
        let seqs: Vec<_> = all.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, [1, 2, 3, 4]);
        assert_eq!(all[3]["state"], "final");
        assert_eq!(all[3]["message"]["content"][0]["text"], "ab");
    }

    #[test]
    fn a_final_always_begins_with_the_deltas() {
        let log = EventLog::new("r1", WIDE);
        assert_eq!(log.compose("only returned"), "only returned");
        log.push(Event::Delta("one ".into()));
        assert_eq!(log.compose(""), "one ");
        assert_eq!(log.compose("one two"), "one two");
        assert_eq!(log.compose("other"), "one \n\nother");
    }

    #[test]
    fn past_the_bound_deltas_stop_and_the_final_has_all() {
        let log = EventLog::new("r1", LogBounds { events: 3, bytes: 1 << 20 });
        log.push(Event::Started);
        for _ in 0..10 {
            log.push(Event::Delta("x".into()));
        }
        log.end(&completed(&log.compose("")));
        let all = events(&log);
        assert_eq!(all.len(), 5);
        assert_eq!(all[4]["message"]["content"][0]["text"], "x".repeat(10));
    }

    #[test]
    fn a_huge_reply_goes_as_deltas_and_an_empty_final() {
        let log = EventLog::new("r1", WIDE);
        let text = "\u{0}é".repeat(2_000_000);
        log.push(Event::Delta(text[..6].to_owned()));
        log.end(&completed(&text));
        let all = events(&log);
        let streamed: String = all.iter().filter_map(|e| e["deltaText"].as_str()).collect();
        assert!(streamed == text);
        let last = all.last().unwrap();
        assert_eq!(last["state"], "final");
        assert_eq!(last["message"]["content"].as_array().unwrap().len(), 0);
    }
}
