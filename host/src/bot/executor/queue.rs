//! Who runs next.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GuestLoad;
use super::task::TaskState;
use crate::bot::engine::Ticker;

/// However many short guests there are, each thread gives the long ones a turn this often. Such a turn is a slice
/// of about 5 ms, so they get at least an eighth of the time.
const HOGS_WAIT_AT_MOST: Duration = Duration::from_millis(35);

/// A turn shorter than this does not count as one.
const TURN: Duration = Duration::from_millis(1);

/// A guest that is to be polled.
pub(super) type Run = async_task::Runnable<Arc<TaskState>>;

/// In the order in which they are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// It is to stop: little to do, and somebody waits for it.
    Stopping,
    /// It has hardly run yet.
    New,
    /// It has used little time so far.
    Fresh,
    /// All others.
    Hog,
}

const LEVELS: usize = Level::Hog as usize + 1;

pub(super) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    ticker: Ticker,
}

struct Inner {
    /// Those that wait for a turn, by level.
    waiting: [VecDeque<Run>; LEVELS],
    /// What each thread runs.
    running: Vec<Option<Running>>,
    /// Threads that wait for work.
    idle: usize,
    /// Those of them that have been woken and are on their way.
    woken: usize,
    closed: bool,
}

struct Running {
    state: Arc<TaskState>,
    level: Level,
    /// A hog's turn that short guests may not cut short.
    protected: bool,
}

impl Queue {
    pub(super) fn new(ticker: Ticker, threads: usize) -> Self {
        let inner = Inner {
            waiting: Default::default(),
            running: (0..threads).map(|_| None).collect(),
            idle: 0,
            woken: 0,
            closed: false,
        };
        Self { inner: Mutex::new(inner), wake: Condvar::new(), ticker }
    }

    /// Puts a guest in. One that gave way of itself (`by_itself`) needs no room made: its own thread is free now.
    pub(super) fn push(&self, run: Run, by_itself: bool) {
        let level = run.metadata().level();
        let mut inner = self.lock();
        if inner.closed {
            drop(inner);
            // Dropped without the lock: that can wake and push other guests.
            drop(run);
            return;
        }
        inner.list(level).push_back(run);
        let tick = if self.wake_one(&mut inner) { false } else { !by_itself && inner.make_room(level) };
        drop(inner);
        if tick {
            self.ticker.tick();
        }
    }

    /// Moves guests that are to stop to the front and makes running ones look up.
    pub(super) fn nudge(&self) {
        let mut inner = self.lock();
        for _ in 0..inner.move_stopping() {
            if !self.wake_one(&mut inner) && !inner.make_room(Level::Stopping) {
                break;
            }
        }
        drop(inner);
        self.ticker.tick();
    }

    /// Runs guests until the queue is closed.
    pub(super) fn work(&self, thread: usize) {
        let mut hogs_ran = Instant::now();
        while let Some((run, level)) = self.next(thread, hogs_ran) {
            self.ticker.enter();
            let began = Instant::now();
            // Guests' panics are caught within; this is for a future that panics while it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| run.run()));
            self.ticker.leave();
            if level == Level::Hog && began.elapsed() >= TURN {
                hogs_ran = Instant::now();
            }
        }
    }

    fn next(&self, thread: usize, hogs_ran: Instant) -> Option<(Run, Level)> {
        let mut inner = self.lock();
        inner.set_running(thread, None);
        loop {
            if inner.closed {
                return None;
            }
            let overdue = hogs_ran.elapsed() >= HOGS_WAIT_AT_MOST;
            if let Some((run, level)) = inner.take(overdue) {
                let state = run.metadata().clone();
                state.begin_turn();
                let protected = overdue && level == Level::Hog;
                inner.set_running(thread, Some(Running { state, level, protected }));
                return Some((run, level));
            }
            inner.idle += 1;
            inner = self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.idle -= 1;
            inner.woken = inner.woken.saturating_sub(1);
        }
    }

    pub(super) fn load(&self) -> GuestLoad {
        let inner = self.lock();
        let waiting = |level: Level| inner.waiting[level as usize].len();
        GuestLoad {
            running: inner.running.iter().flatten().count(),
            short: waiting(Level::Stopping) + waiting(Level::New) + waiting(Level::Fresh),
            long: waiting(Level::Hog),
        }
    }

    /// Lets the threads end; the guests that are left are dropped.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let left = std::mem::take(&mut inner.waiting);
        for running in inner.running.iter().flatten() {
            running.state.abandon();
        }
        drop(inner);
        drop(left);
        self.wake.notify_all();
        self.ticker.tick();
    }

    fn wake_one(&self, inner: &mut Inner) -> bool {
        let sleeps = inner.idle > inner.woken;
        if sleeps {
            inner.woken += 1;
            self.wake.notify_one();
        }
        sleeps
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn list(&mut self, level: Level) -> &mut VecDeque<Run> {
        &mut self.waiting[level as usize]
    }

    fn take(&mut self, hogs_are_overdue: bool) -> Option<(Run, Level)> {
        let order = if hogs_are_overdue {
            [Level::Stopping, Level::Hog, Level::New, Level::Fresh]
        } else {
            [Level::Stopping, Level::New, Level::Fresh, Level::Hog]
        };
        order.into_iter().find_map(|level| Some((self.list(level).pop_front()?, level)))
    }

    fn set_running(&mut self, thread: usize, running: Option<Running>) {
        if let Some(slot) = self.running.get_mut(thread) {
            *slot = running;
        }
    }

    /// Asks the running guest that comes last to give its thread to one of this level; `true` if there was one to ask.
    fn make_room(&self, level: Level) -> bool {
        let running = self.running.iter().flatten();
        let after = running.filter(|running| {
            let may_be_cut = !running.protected || level == Level::Stopping;
            running.level > level && may_be_cut && !running.state.was_asked_for_room()
        });
        after.max_by_key(|running| running.level).is_some_and(|running| running.state.ask_for_room())
    }

    /// Moves what is to stop to its list; how many that were.
    fn move_stopping(&mut self) -> usize {
        let before = self.list(Level::Stopping).len();
        for level in [Level::New, Level::Fresh, Level::Hog] {
            let (stopping, others): (VecDeque<Run>, VecDeque<Run>) =
                std::mem::take(self.list(level)).into_iter().partition(|run| run.metadata().is_stopping());
            *self.list(level) = others;
            self.list(Level::Stopping).extend(stopping);
        }
        self.list(Level::Stopping).len() - before
    }
}
