//! The server's table of runs: how each is bound, and how it ended (reference, section 4.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::event::Interaction;
use super::outcome::Outcome;
use super::text::Text;
use super::violation::{Notes, ViolationKind};
use crate::wire::headers::ProtocolVersion;

/// How a run's events come, settled by the answer to its `chat.send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The answer is not there yet.
    Negotiating,
    /// Over the event stream of the answer.
    Sse,
    /// By callback.
    Callback,
    /// The Provider refused the send, or answered what cannot be decoded.
    Refused,
    /// The connection broke or timed out before there was an answer: the Provider may have taken it or not.
    Unknown,
}

/// A run as the server knows it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its id: that of the `chat.send`.
    pub id: String,
    /// The bot.
    pub bot: String,
    /// The session.
    pub session: String,
    /// How its events come.
    pub phase: Phase,
    /// Its end, once there is one.
    pub outcome: Option<Outcome>,
    /// The reply so far.
    pub text: String,
    /// `runId` in the Provider's events.
    pub provider_run_id: Option<String>,
    /// The interactions the bot has asked for, by id.
    pub interactions: BTreeMap<String, Interaction>,
}

/// What a delivery of `chat.send` tells of its run.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) bot: String,
    pub(super) session: String,
    pub(super) version: ProtocolVersion,
    pub(super) timeout_ms: u64,
    pub(super) at: Instant,
}

/// One entry of the table.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) delivery: Delivery,
    pub(super) phase: Phase,
    /// Streams that are being read: a repeated send attaches one more.
    pub(super) streams: usize,
    pub(super) outcome: Option<Outcome>,
    pub(super) text: Text,
    pub(super) provider_run_id: Option<String>,
    pub(super) interactions: BTreeMap<String, Interaction>,
    /// Whether an answer to `chat.abort` has ended it.
    pub(super) abort_confirmed: bool,
    pub(super) changed: Arc<Notify>,
}

impl Run {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            phase: Phase::Negotiating,
            streams: 0,
            outcome: None,
            text: Text::default(),
            provider_run_id: None,
            interactions: BTreeMap::new(),
            abort_confirmed: false,
            changed: Arc::default(),
        }
    }

    /// When the server gives up on it.
    pub(super) fn deadline(&self) -> Instant {
        let far = Duration::from_secs(10 * 365 * 86_400);
        let timeout = Duration::from_millis(self.delivery.timeout_ms).min(far);
        self.delivery.at + timeout
    }

    /// One more delivery of the same id: a refused one starts anew, any other stays as it is bound.
    pub(super) fn deliver_again(&mut self, delivery: Delivery) {
        if self.phase == Phase::Refused {
            self.phase = Phase::Negotiating;
            self.delivery = delivery;
        }
    }

    /// The answer is an event stream.
    pub(super) fn bind_sse(&mut self) {
        self.streams += 1;
        if self.phase != Phase::Callback {
            self.bind(Phase::Sse);
        }
    }

    /// The answer is an acknowledgement. A stream that is still read stays what the run is bound to.
    pub(super) fn bind_callback(&mut self) {
        if self.phase != Phase::Sse || (self.streams == 0 && self.outcome.is_none()) {
            self.bind(Phase::Callback);
        }
    }

    /// There is no answer of use.
    pub(super) fn unbind(&mut self, phase: Phase) {
        if self.phase == Phase::Negotiating {
            self.bind(phase);
        }
    }

    fn bind(&mut self, phase: Phase) {
        self.phase = phase;
        self.changed.notify_waiters();
    }

    /// Takes an end. The first one told stands; a later one must be the same.
    pub(super) fn end(&mut self, outcome: Outcome, notes: &mut Notes) {
        match &mut self.outcome {
            Some(Outcome::Aborted { stop_reason: known @ None }) if matches!(outcome, Outcome::Aborted { .. }) => {
                if let Outcome::Aborted { stop_reason } = outcome {
                    *known = stop_reason;
                }
            }
            Some(known) if known.is_told() => {
                if outcome.is_told() && !known.agrees(&outcome) {
                    notes.push((ViolationKind::OutcomeDiffers, format!("it had ended as {known}, now as {outcome}")));
                }
            }
            _ => self.outcome = Some(outcome),
        }
        self.changed.notify_waiters();
    }

    pub(super) fn view(&self) -> RunView {
        RunView {
            id: self.delivery.id.clone(),
            bot: self.delivery.bot.clone(),
            session: self.delivery.session.clone(),
            phase: self.phase,
            outcome: self.outcome.clone(),
            text: self.text.as_str().to_owned(),
            provider_run_id: self.provider_run_id.clone(),
            interactions: self.interactions.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run::new(Delivery {
            id: "r".into(),
            bot: "b".into(),
            session: "s".into(),
            version: ProtocolVersion::V2,
            timeout_ms: u64::MAX,
            at: Instant::now(),
        })
    }

    fn done(text: &str) -> Outcome {
        Outcome::Final { text: text.into(), stop_reason: None }
    }

    #[test]
    fn the_first_end_stands_and_another_is_noted() {
        let (mut run, mut notes) = (run(), Notes::new());
        run.end(Outcome::Synthesized { reason: "EOF".into() }, &mut notes);
        run.end(done("a"), &mut notes);
        run.end(done("a"), &mut notes);
        assert!(notes.is_empty());
        run.end(Outcome::Aborted { stop_reason: None }, &mut notes);
        assert_eq!(run.outcome, Some(done("a")));
        assert_eq!(notes.first().map(|note| note.0), Some(ViolationKind::OutcomeDiffers));
    }

    #[test]
    fn a_stream_tells_why_a_confirmed_abort_was() {
        let (mut run, mut notes) = (run(), Notes::new());
        let why = Outcome::Aborted { stop_reason: Some("user_cancelled".into()) };
        run.end(Outcome::Aborted { stop_reason: None }, &mut notes);
        run.end(why.clone(), &mut notes);
        assert_eq!((run.outcome, notes.len()), (Some(why), 0));
    }

    #[test]
    fn a_binding_is_one_way_while_a_stream_is_read() {
        let mut run = run();
        run.bind_sse();
        run.bind_callback();
        assert_eq!(run.phase, Phase::Sse);
        run.streams = 0;
        run.bind_callback();
        assert_eq!(run.phase, Phase::Callback);
        run.unbind(Phase::Unknown);
        assert_eq!(run.phase, Phase::Callback);
    }
}
