//! The worker that empties the outbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::bcs::BcsClient;
use super::courier::{Courier, store_pause};
use super::hold::{AckHold, Holds};
use super::waiting::Waiting;
use crate::clock::now_ms;
use crate::store::{Store, StoreError};
use crate::wire::BotRef;

/// The longest pause between two looks into the outbox.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The shortest, when something is said to be due and is not given.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The bounds of the worker.
#[derive(Debug, Clone)]
pub struct Options {
    /// Deliveries at once, of all bots together.
    pub at_once: usize,
    /// Deliveries at once of one bot.
    pub at_once_per_bot: usize,
    /// Entries taken from the store at a time.
    pub take: usize,
    /// Entries in hand that have not begun: the worker's memory is bounded by these and those under way.
    pub waiting: usize,
    /// An entry that is taken and not settled is due again after this long. Longer than a try can last.
    pub lease: Duration,
    /// An acknowledgement that is not on the wire after this long will not be any more: the callback goes.
    pub longest_hold: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            at_once: 64,
            at_once_per_bot: 4,
            take: 256,
            waiting: 1_024,
            lease: Duration::from_secs(60),
            longest_hold: Duration::from_secs(15),
        }
    }
}

/// Starts the worker.
#[derive(Debug)]
pub struct Outbox;

impl Outbox {
    /// Starts delivering what is in the store's outbox. Within a Tokio runtime.
    pub fn spawn(store: Arc<dyn Store>, client: Arc<BcsClient>, options: Options) -> OutboxHandle {
        let holds = Arc::new(Holds::new(options.longest_hold));
        let news = Arc::new(Notify::new());
        let (stop, stopped) = watch::channel(None);
        let (finished, done) = watch::channel(false);
        let worker = Worker {
            waiting: Waiting::new(options.at_once_per_bot),
            courier: Arc::new(Courier { store, client, stop: stopped.clone() }),
            holds: holds.clone(),
            news: news.clone(),
            stop: stopped,
            tasks: JoinSet::new(),
            under_way: HashMap::new(),
            look_at: Some(Instant::now()),
            failures: 0,
            not_before: Instant::now(),
            options,
        };
        tokio::spawn(async move {
            worker.run().await;
            finished.send_replace(true);
        });
        OutboxHandle { holds, news, stop: Arc::new(stop), done }
    }
}

/// A handle on the worker. Cheap to clone; without one the worker ends.
#[derive(Debug, Clone)]
pub struct OutboxHandle {
    holds: Arc<Holds>,
    news: Arc<Notify>,
    stop: Arc<watch::Sender<Option<Duration>>>,
    done: watch::Receiver<bool>,
}

impl OutboxHandle {
    /// Something is new in the outbox.
    pub fn notify(&self) {
        self.news.notify_one();
    }

    /// Holds a run's callback back: take it before the run can end, say [`AckHold::sent`] when the acknowledgement is
    /// on the wire.
    pub fn hold(&self, run_id: &str) -> AckHold {
        self.holds.hold(run_id)
    }

    /// Begins nothing new and lets what is under way end within `time`. The rest stays in the outbox, with its event
    /// ids, for the next start.
    pub async fn shutdown(&self, time: Duration) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            *stop = stop.or(Some(time));
            first
        });
        // An error says that the worker is gone.
        let _ = self.done.clone().wait_for(|done| *done).await;
    }
}

struct Worker {
    courier: Arc<Courier>,
    options: Options,
    holds: Arc<Holds>,
    news: Arc<Notify>,
    stop: watch::Receiver<Option<Duration>>,
    waiting: Waiting,
    tasks: JoinSet<Option<u64>>,
    under_way: HashMap<Id, (BotRef, String)>,
    /// When to look into the outbox next; `None` while there is no room for more.
    look_at: Option<Instant>,
    /// How often in a row the store failed, and when it may be asked again.
    failures: u32,
    not_before: Instant,
}

impl Worker {
    async fn run(mut self) {
        while self.stop.borrow().is_none() {
            self.begin();
            let now = Instant::now();
            let look_at = self.look_at.map(|at| at.max(self.not_before));
            if look_at.is_some_and(|at| at <= now) {
                if !self.look().await {
                    break;
                }
                continue;
            }
            let hold_end = if self.waiting.len() > 0 { self.holds.next_end() } else { None };
            let wake = look_at.into_iter().chain(hold_end).min().unwrap_or(now + LONGEST_PAUSE);
            tokio::select! {
                changed = self.stop.changed() => if changed.is_err() { break },
                () = self.news.notified() => self.look_by(now),
                () = self.holds.released.notified() => {}
                Some(joined) = self.tasks.join_next_with_id() => self.ended(joined),
                () = sleep_until(wake) => {}
            }
        }
        self.drain().await;
    }

    /// Begins what may begin.
    fn begin(&mut self) {
        while self.tasks.len() < self.options.at_once {
            let Some(entry) = self.waiting.begin(|run_id| self.holds.is_held(run_id)) else { return };
            let (bot, run_id) = (entry.bot.clone(), entry.run_id.clone());
            let task = self.tasks.spawn(self.courier.clone().deliver(entry));
            self.under_way.insert(task.id(), (bot, run_id));
        }
    }

    /// Takes what is due. `false` if the store has closed or nobody has a handle any more.
    async fn look(&mut self) -> bool {
        let room = self.options.waiting.saturating_sub(self.waiting.len()).min(self.options.take);
        if room == 0 || !self.courier.client.has_address() {
            self.look_at = None;
            return true;
        }
        let now = now_ms();
        let lease = u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX);
        let taken = tokio::select! {
            taken = self.courier.store.outbox_take(now, room, lease) => taken,
            changed = self.stop.changed() => return changed.is_ok(),
        };
        match taken {
            Ok(batch) => {
                self.failures = 0;
                let pause = match batch.next_due {
                    _ if batch.entries.len() >= room => Duration::ZERO,
                    Some(due) => Duration::from_millis(due.saturating_sub(now)).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
                    None => LONGEST_PAUSE,
                };
                self.look_at = Some(Instant::now() + pause);
                batch.entries.into_iter().for_each(|entry| self.waiting.push(entry));
            }
            Err(StoreError::Closed) => return false,
            Err(error) => {
                let pause = store_pause(self.failures);
                tracing::error!(%error, "the outbox cannot be read; callbacks wait, and it is tried again in {pause:?}");
                self.failures = self.failures.saturating_add(1);
                self.not_before = Instant::now() + pause;
                self.look_at = Some(self.not_before);
            }
        }
        true
    }

    /// Looks no later than `at`.
    fn look_by(&mut self, at: Instant) {
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    fn ended(&mut self, joined: Result<(Id, Option<u64>), JoinError>) {
        let (id, due) = match joined {
            Ok((id, due)) => (id, due),
            Err(error) => {
                tracing::error!(%error, "the delivery of a callback broke off; it is tried again when its lease ends");
                (error.id(), None)
            }
        };
        if let Some((bot, run_id)) = self.under_way.remove(&id) {
            self.waiting.ended(&bot, &run_id);
        }
        let now = Instant::now();
        if let Some(due) = due {
            self.look_by(now + Duration::from_millis(due.saturating_sub(now_ms())).min(LONGEST_PAUSE));
        } else if self.look_at.is_none() {
            // There was no room.
            self.look_by(now);
        }
    }

    async fn drain(mut self) {
        let time = self.stop.borrow().unwrap_or_default();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(time, all).await.is_err() {
            tracing::warn!("some callbacks were under way at the end; they are sent again after the next start");
            self.tasks.shutdown().await;
        }
    }
}
