//! Guests run on their own threads, so that a host full of spinning bots still answers at once.
//!
//! A guest is a future that gives way at every turn of its slice. The queue decides who is next: guests that are to
//! stop, then those that have used little time, then the others in turn.

mod queue;
mod task;

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::runtime::Handle;

use self::queue::Queue;
use self::task::Measured;
pub(super) use self::task::{Guest, TaskState, Verdict};
use super::engine::{Engines, Ticker};

/// How much nicer than the rest of the host the guest threads are.
const NICENESS: i32 = 5;

/// The threads that guests run on.
pub struct Guests {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the guest threads have to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuestLoad {
    /// Guests on a thread now.
    pub running: usize,
    /// Guests that wait for a thread and have used little time so far.
    pub short: usize,
    /// Guests that wait for a thread and have used more.
    pub long: usize,
}

impl Guests {
    pub(super) fn start(engines: Engines, threads: usize, handle: &Handle) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(Ticker::start(engines)?, threads));
        let guests = Self { queue: queue.clone(), threads: Mutex::default() };
        for number in 0..threads {
            let (queue, handle) = (queue.clone(), handle.clone());
            let thread = thread::Builder::new().name(format!("avernest-bot-{number}")).spawn(move || {
                // Timers and the like of what a guest waits for belong to the host's tokio runtime.
                let _entered = handle.enter();
                lower_priority();
                queue.work(number);
            })?;
            guests.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(guests)
    }

    /// Runs `future` on these threads. It ends when the returned task is dropped, too. A panic in it is caught and
    /// returned as its text.
    pub(super) fn spawn<F>(&self, state: Arc<TaskState>, future: F) -> Guest<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let queue = self.queue.clone();
        let schedule = async_task::WithInfo(move |runnable, info: async_task::ScheduleInfo| {
            queue.push(runnable, info.woken_while_running);
        });
        let measured = Measured::new(future, state.clone());
        let (runnable, task) = async_task::Builder::new().metadata(state.clone()).spawn(move |_| measured, schedule);
        runnable.schedule();
        Guest::new(task.fallible(), state, self.queue.clone())
    }

    /// Looks for guests that are to stop and lets them go first. To be called after
    /// [`CancelToken::cancel`](super::CancelToken::cancel), so that the guest ends at once.
    pub fn nudge(&self) {
        self.queue.nudge();
    }

    /// What there is to do now. Guests that wait for something else than a thread are not counted.
    #[must_use]
    pub fn load(&self) -> GuestLoad {
        self.queue.load()
    }

    /// Stops the threads; guests that have not ended are dropped.
    pub(super) fn shutdown(&self) {
        self.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The last owner of a runtime can be a guest's own future.
            if thread.thread().id() != thread::current().id() {
                // A panic there has been printed, and there is nobody left to tell.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Best effort: without it guests only compete harder with the rest of the host.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // On Linux the priority of a thread is that of the "process" with its id.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    }
}

#[cfg(test)]
mod tests;
