//! An open event stream, read at the pace of the test.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Bcs;
use super::answer::Meta;
use super::collected::Collected;
use super::error::SimError;
use super::event::{Event, SseEvent};
use super::outcome::Outcome;
use super::reader::Reader;
use super::violation::{Notes, ViolationKind};
use crate::wire::sse::{Decoder, Received};

/// A run whose events come over an open stream. Nothing is read but by [`SseRun::next`] and what uses it: a run that
/// is kept and not read is a reader that has stopped. Dropping it closes the stream, as a server that dies does.
#[derive(Debug)]
pub struct SseRun {
    bcs: Bcs,
    meta: Meta,
    response: reqwest::Response,
    decoder: Option<Decoder>,
    frames: VecDeque<(Received, Duration)>,
    reader: Reader,
    started: Instant,
    last_byte: Instant,
    max_gap: Duration,
    first_event_after: Option<Duration>,
    deadline: Instant,
    patience: Duration,
    /// The Provider has closed the stream.
    eof: bool,
    /// There is nothing more to read.
    ended: bool,
}

impl SseRun {
    pub(super) fn new(bcs: Bcs, meta: Meta, response: reqwest::Response, started: Instant, deadline: Instant) -> Self {
        let patience = bcs.options().patience;
        Self {
            bcs,
            meta,
            response,
            decoder: Some(Decoder::default()),
            frames: VecDeque::new(),
            reader: Reader::default(),
            started,
            last_byte: Instant::now(),
            max_gap: Duration::ZERO,
            first_event_after: None,
            deadline,
            patience,
            eof: false,
            ended: false,
        }
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.meta.id
    }

    /// Status, headers and times of the answer.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The reply as far as it has been read.
    #[must_use]
    pub fn text(&self) -> &str {
        self.reader.text.as_str()
    }

    /// The end, once it has been read.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.reader.outcome.as_ref()
    }

    /// The longest time without a byte so far, heartbeats included.
    #[must_use]
    pub fn max_gap(&self) -> Duration {
        self.max_gap
    }

    /// From the start of sending to the first event that is no ping.
    #[must_use]
    pub fn first_event_after(&self) -> Option<Duration> {
        self.first_event_after
    }

    /// How long one wait for an event may take; [`BcsOptions::patience`](super::BcsOptions::patience) if not set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The next event that the server takes; `None` after the end. Waits no longer than the patience; after such an
    /// error it can be called again.
    ///
    /// # Errors
    /// [`SimError::TimedOut`].
    pub async fn next(&mut self) -> Result<Option<SseEvent>, SimError> {
        let bound = Instant::now() + self.patience;
        loop {
            while let Some((frame, at)) = self.frames.pop_front() {
                if let Some(event) = self.take(&frame, at) {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                return Ok(None);
            } else if self.reader.outcome.is_some() {
                self.drain().await;
            } else if self.eof {
                self.give_up(ViolationKind::NoTerminal, "the stream ended without a terminal event");
            } else if self.is_broken() {
                self.give_up(ViolationKind::FrameTooLarge, "a frame is larger than 8 MiB");
            } else {
                self.read_some(bound).await?;
            }
        }
    }

    /// Reads up to the first event that `wanted` accepts.
    ///
    /// # Errors
    /// [`SimError::TimedOut`], or [`SimError::Unexpected`] if the stream ends first.
    pub async fn until(&mut self, wanted: impl Fn(&SseEvent) -> bool) -> Result<SseEvent, SimError> {
        while let Some(event) = self.next().await? {
            if wanted(&event) {
                return Ok(event);
            }
        }
        let got = self.reader.outcome.as_ref().map_or_else(|| "it just ended".to_owned(), Outcome::to_string);
        Err(SimError::Unexpected { wanted: "an event that the stream never had", got: format!("it ended: {got}") })
    }

    /// Reads to the end. Each wait for an event is bounded by the patience.
    ///
    /// # Errors
    /// [`SimError::TimedOut`].
    pub async fn collect(mut self) -> Result<Collected, SimError> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        let unknown = || Outcome::Synthesized { reason: "the stream ended".to_owned() };
        Ok(Collected {
            run_id: self.meta.id.clone(),
            outcome: self.reader.outcome.clone().unwrap_or_else(unknown),
            events,
            headers_after: self.meta.headers_after,
            first_event_after: self.first_event_after,
            max_gap: self.max_gap,
        })
    }

    /// Reads to the end in a task of its own, as the real server does.
    pub fn in_background(self) -> tokio::task::JoinHandle<Result<Collected, SimError>> {
        tokio::spawn(self.collect())
    }

    /// Checks one frame, tells the table of runs, and notes what is wrong.
    fn take(&mut self, frame: &Received, at: Duration) -> Option<SseEvent> {
        let mut notes = Notes::new();
        let had_ended = self.reader.outcome.is_some();
        let event = self.reader.take(frame, at, &mut notes);
        if let Some(event) = &event
            && event.event != Event::Ping
        {
            self.first_event_after.get_or_insert(at);
        }
        let reader = &self.reader;
        let mut state = self.bcs.inner.state();
        state.note_all(&self.meta.id, notes);
        state.with_run(&self.meta.id, |run, notes| {
            if let Some(Event::Interaction(interaction)) = event.as_ref().map(|event| &event.event) {
                run.interactions.insert(interaction.id.clone(), interaction.clone());
            }
            if run.provider_run_id.is_none() {
                run.provider_run_id.clone_from(&reader.run_id);
            }
            run.text = reader.text.clone();
            if let (Some(outcome), false) = (&reader.outcome, had_ended) {
                run.end(outcome.clone(), notes);
            }
        });
        event
    }

    /// Waits for bytes, or for the end of waiting.
    async fn read_some(&mut self, bound: Instant) -> Result<(), SimError> {
        let options = self.bcs.options();
        let last_call = self.deadline + options.deadline_grace;
        let idle = self.last_byte + options.idle_timeout;
        let until = bound.min(last_call).min(idle);
        let Ok(chunk) = tokio::time::timeout_at(until.into(), self.response.chunk()).await else {
            let now = Instant::now();
            if now >= last_call {
                self.give_up(ViolationKind::DeadlineMissed, "the run's deadline has passed and it has not ended");
            } else if now >= idle {
                self.give_up(ViolationKind::StreamSilent, "the stream was silent for too long");
            } else {
                let what = format!("the next event of {}", self.meta.id);
                return Err(SimError::TimedOut { what, waited: self.patience });
            }
            return Ok(());
        };
        let gap = self.last_byte.elapsed();
        match chunk {
            Ok(Some(bytes)) => {
                self.max_gap = self.max_gap.max(gap);
                self.last_byte = Instant::now();
                self.feed(&bytes);
            }
            Ok(None) => {
                self.max_gap = self.max_gap.max(gap);
                self.leftover();
            }
            Err(error) => {
                let text = format!("the stream broke: {}", SimError::transport(&error));
                self.give_up(ViolationKind::StreamBroken, &text);
            }
        }
        Ok(())
    }

    fn feed(&mut self, bytes: &[u8]) {
        let at = self.started.elapsed();
        // Bytes after a frame that is too large are lost; `is_broken` tells of it.
        let frames = self.decoder.as_mut().and_then(|decoder| decoder.feed(bytes).ok()).unwrap_or_default();
        self.frames.extend(frames.into_iter().map(|frame| (frame, at)));
    }

    fn is_broken(&self) -> bool {
        self.decoder.as_ref().is_some_and(Decoder::is_broken)
    }

    /// Bytes after the last separator are one more frame, which can be the terminal.
    fn leftover(&mut self) {
        self.eof = true;
        let at = self.started.elapsed();
        if let Some(frame) = self.decoder.take().and_then(Decoder::finish) {
            self.frames.push_back((frame, at));
        }
    }

    /// The server closes the stream and makes up an error.
    fn give_up(&mut self, kind: ViolationKind, why: &str) {
        self.ended = true;
        let outcome = Outcome::Synthesized { reason: why.to_owned() };
        self.reader.outcome = Some(outcome.clone());
        let mut state = self.bcs.inner.state();
        state.note(kind, &self.meta.id, why);
        state.with_run(&self.meta.id, |run, notes| run.end(outcome, notes));
    }

    /// After the terminal: whether more comes, and whether the stream is closed.
    async fn drain(&mut self) {
        let until = Instant::now() + self.bcs.options().linger;
        while !self.eof && !self.is_broken() {
            match tokio::time::timeout_at(until.into(), self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.feed(&bytes),
                Ok(Ok(None)) => self.leftover(),
                Ok(_) => break,
                Err(_) => {
                    let what = format!("it was still open {:?} after its terminal event", self.bcs.options().linger);
                    self.bcs.inner.note(ViolationKind::StreamLeftOpen, &self.meta.id, what);
                    break;
                }
            }
        }
        self.ended = true;
    }
}

impl Drop for SseRun {
    fn drop(&mut self) {
        self.bcs.inner.state().with_run(&self.meta.id, |run, _| run.streams = run.streams.saturating_sub(1));
    }
}
