//! A stream that has been read to its end.

use std::time::Duration;

use super::event::SseEvent;
use super::outcome::Outcome;

/// A stream that has been read to its end.
#[derive(Debug)]
pub struct Collected {
    /// The run's id.
    pub run_id: String,
    /// The end.
    pub outcome: Outcome,
    /// The events that the server has taken, from where the collecting began.
    pub events: Vec<SseEvent>,
    /// From the start of sending to the headers.
    pub headers_after: Duration,
    /// From the start of sending to the first event that is no ping.
    pub first_event_after: Option<Duration>,
    /// The longest time without a byte.
    pub max_gap: Duration,
}

impl Collected {
    /// The reply; empty if the run did not end with one.
    #[must_use]
    pub fn text(&self) -> &str {
        self.outcome.text().unwrap_or_default()
    }
}
