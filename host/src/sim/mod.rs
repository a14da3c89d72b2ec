//! A simulated coordination server (BCS) that drives a Provider over real sockets, for tests, the demo and
//! conformance checks.
//!
//! It sends what the real server sends and is strict where that one is lenient: each departure from the protocol is
//! noted as a [`Violation`] by name. See `reference.md` for what the real server does.
//!
//! ```no_run
//! # async fn example() -> Result<(), avernest::sim::SimError> {
//! use avernest::sim::{Bcs, BcsOptions};
//! let bcs = Bcs::start(BcsOptions::default()).await?;
//! // … start the Provider with `bcs.url()` as its BCS …
//! bcs.connect("http://127.0.0.1:8787/webhook");
//! let run = bcs.send("echo", "session-1", "hello").await?.sse()?.collect().await?;
//! assert_eq!(run.text(), "hello");
//! let ack = bcs.send("echo", "session-1", "again").callback().await?.acked()?;
//! let outcome = bcs.outcome(&ack.meta.id).await?;
//! assert_eq!(outcome.text(), Some("again"));
//! bcs.assert_clean()
//! # }
//! ```

mod answer;
mod callback;
mod client;
mod collected;
mod envelope;
mod error;
mod event;
mod methods;
mod options;
mod outcome;
mod post;
mod raw;
mod reader;
mod request;
mod run;
mod state;
mod stream;
mod text;
mod violation;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::answer::{Ack, Meta, Refusal, Reply};
pub use self::callback::{Answered, Callback, Fault, FaultRule};
pub use self::collected::Collected;
pub use self::envelope::ErrorEnvelope;
pub use self::error::SimError;
pub use self::event::{Agent, Chat, ChatState, Event, Interaction, InteractionPhase, SseEvent};
pub use self::methods::{
    AbortAnswer, AbortMethod, HistoryAnswer, HistoryMethod, InjectMethod, PingMethod, ResolveMethod, SendMethod,
    SendResult,
};
pub use self::options::{AuthMode, BcsOptions};
pub use self::outcome::Outcome;
pub use self::raw::RawAnswer;
pub use self::request::{Kind, Request, Transport};
pub use self::run::{Phase, RunView};
use self::state::Inner;
pub use self::stream::SseRun;
pub use self::violation::{Violation, ViolationKind};

/// A handle of a simulated coordination server. Clones are of the same server; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Bcs {
    inner: Arc<Inner>,
}

/// The wall clock, Unix milliseconds.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Bcs {
    /// Starts a server: from now on callbacks are received at [`Bcs::url`].
    ///
    /// # Errors
    /// [`SimError::Listen`].
    pub async fn start(options: BcsOptions) -> Result<Self, SimError> {
        let (listener, address) = callback::bind("127.0.0.1:0").await?;
        let inner = Arc::new(Inner::new(options, address));
        callback::serve(&inner, listener);
        Ok(Self { inner })
    }

    /// The base URL, for the Provider's `bcs_url`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.inner.address)
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &BcsOptions {
        &self.inner.options
    }

    /// Sets the Provider's webhook. Again, it is a Provider that has been restarted: all runs are kept, and it may
    /// send callbacks again whose answers its predecessor had got.
    pub fn connect(&self, webhook_url: &str) {
        let mut state = self.inner.state();
        state.webhook = Some(webhook_url.to_owned());
        for seen in state.events.values_mut() {
            seen.answer = None;
        }
    }

    fn webhook(&self) -> Result<String, SimError> {
        self.inner.state().webhook.clone().ok_or(SimError::NotConnected)
    }

    /// A run as the server knows it.
    #[must_use]
    pub fn run(&self, run_id: &str) -> Option<RunView> {
        self.inner.state().runs.get(run_id).map(run::Run::view)
    }

    /// All runs, in no order.
    #[must_use]
    pub fn runs(&self) -> Vec<RunView> {
        self.inner.state().runs.values().map(run::Run::view).collect()
    }

    /// Waits for the end of a run, whichever way it is told. A run on a stream ends only if its stream is read, by
    /// [`SseRun::in_background`] for instance.
    ///
    /// # Errors
    /// [`SimError::TimedOut`] after [`BcsOptions::patience`]; [`SimError::Unexpected`] if there is no such run.
    pub async fn outcome(&self, run_id: &str) -> Result<Outcome, SimError> {
        self.outcome_within(run_id, self.options().patience).await
    }

    /// The same with another bound.
    ///
    /// # Errors
    /// As [`Bcs::outcome`].
    pub async fn outcome_within(&self, run_id: &str, within: Duration) -> Result<Outcome, SimError> {
        let changed = self.inner.state().runs.get(run_id).map(|run| run.changed.clone());
        let missing = || SimError::Unexpected { wanted: "a run that was sent", got: format!("{run_id:?} never was") };
        let changed = changed.ok_or_else(missing)?;
        let what = || format!("the end of run {run_id}");
        self.inner.wait(within, &changed, what, |state| state.runs.get(run_id)?.outcome.clone()).await
    }

    /// The callbacks for a run that have come, in the order they came.
    #[must_use]
    pub fn callbacks(&self, run_id: &str) -> Vec<Callback> {
        self.inner.state().callbacks.iter().filter(|callback| callback.run_id == run_id).cloned().collect()
    }

    /// All callbacks that have come, whatever they were.
    #[must_use]
    pub fn all_callbacks(&self) -> Vec<Callback> {
        self.inner.state().callbacks.clone()
    }

    /// Waits until at least `count` callbacks for a run have come and been answered (or spoiled by a fault).
    ///
    /// # Errors
    /// [`SimError::TimedOut`].
    pub async fn wait_callbacks(&self, run_id: &str, count: usize) -> Result<Vec<Callback>, SimError> {
        let what = || format!("{count} callbacks for run {run_id}");
        let enough = |state: &state::State| {
            let is_done = |of: &&Callback| of.run_id == run_id && of.answer != Answered::Pending;
            let of_run = || state.callbacks.iter().filter(is_done);
            (of_run().count() >= count).then(|| of_run().cloned().collect())
        };
        self.inner.wait(self.options().patience, &self.inner.callbacks_changed, what, enough).await
    }

    /// Scripts a fault of the callback server. Several rules apply in the order they were given.
    pub fn script(&self, rule: FaultRule) {
        self.inner.state().faults.push(rule);
    }

    /// Ends all faults, those under way excepted.
    pub fn clear_faults(&self) {
        self.inner.state().faults.clear();
    }

    /// Takes the callback server away: it refuses connections, and those that are open break.
    pub async fn stop_callbacks(&self) {
        callback::stop(&self.inner).await;
    }

    /// Brings the callback server back, on the same port.
    ///
    /// # Errors
    /// [`SimError::Listen`], for instance if another program has taken the port meanwhile.
    pub async fn restart_callbacks(&self) -> Result<(), SimError> {
        callback::stop(&self.inner).await;
        let (listener, _) = callback::bind(&self.inner.address.to_string()).await?;
        callback::serve(&self.inner, listener);
        Ok(())
    }

    /// What has been noted so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.inner.state().violations.clone()
    }

    /// The same, and forgets it.
    #[must_use]
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.inner.state().violations)
    }

    /// Ok if no rule was broken.
    ///
    /// # Errors
    /// [`SimError::Violations`] with a sentence for each.
    pub fn assert_clean(&self) -> Result<(), SimError> {
        self.assert_clean_but(&[])
    }

    /// Ok if no rule but these was broken: a crash test, for instance, breaks streams.
    ///
    /// # Errors
    /// [`SimError::Violations`] with a sentence for each.
    pub fn assert_clean_but(&self, expected: &[ViolationKind]) -> Result<(), SimError> {
        let list: Vec<_> = self.violations().into_iter().filter(|found| !expected.contains(&found.kind)).collect();
        if list.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = list.iter().map(Violation::to_string).collect();
        Err(SimError::Violations { count: list.len(), list: lines.join("\n") })
    }
}
