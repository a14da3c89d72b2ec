//! The storage thread and the queue before it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::engine::Engine;
use crate::store::{StoreError, StoreFuture};

/// The most operations that one flush serves.
const GROUP: usize = 512;
/// The most operations that wait; a caller beyond waits itself.
const WAITING: usize = 2 * GROUP;

/// One operation.
trait Job: Send {
    fn writes(&self) -> bool;
    /// Whether nobody waits for it any more.
    fn forgotten(&self) -> bool;
    fn carry_out(&mut self, engine: &mut Engine);
    /// Gives the caller what came out, or this error.
    fn answer(self: Box<Self>, error: Option<StoreError>);
}

struct Operation<T, F> {
    writes: bool,
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Operation<T, F>
where
    T: Send,
    F: FnOnce(&mut Engine) -> Result<T, StoreError> + Send,
{
    fn writes(&self) -> bool {
        self.writes
    }

    fn forgotten(&self) -> bool {
        self.caller.is_closed()
    }

    fn carry_out(&mut self, engine: &mut Engine) {
        if let Some(work) = self.work.take() {
            self.result = Some(work(engine));
        }
    }

    fn answer(self: Box<Self>, error: Option<StoreError>) {
        let result = match error {
            Some(error) => Err(error),
            None => self.result.unwrap_or(Err(StoreError::Closed)),
        };
        // The caller may have gone away; the operation is carried out all the same.
        let _ = self.caller.send(result);
    }
}

enum Message {
    // The permit goes with it until it is answered: that is what bounds the queue.
    Job(Box<dyn Job>, Option<OwnedSemaphorePermit>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// The way to the storage thread.
///
/// The channel itself has no bound and the semaphore gives it one, so that an operation whose future is dropped
/// while it waits for room can still be handed over.
pub(super) struct Queue {
    sender: UnboundedSender<Message>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Starts the thread.
    pub(super) fn start(engine: Engine) -> std::io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        std::thread::Builder::new().name("store".into()).spawn(move || serve(engine, receiver))?;
        Ok(Self { sender, room: Arc::new(Semaphore::new(WAITING)) })
    }

    /// An operation that may write: carried out even if its future is dropped.
    pub(super) fn write<T, F>(&self, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Engine) -> Result<T, StoreError> + Send + 'static,
    {
        self.submit(true, work)
    }

    /// An operation that only reads: left out if its future is dropped.
    pub(super) fn read<T, F>(&self, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Engine) -> Result<T, StoreError> + Send + 'static,
    {
        self.submit(false, work)
    }

    fn submit<T, F>(&self, writes: bool, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Engine) -> Result<T, StoreError> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = Box::new(Operation { writes, work: Some(work), result: None, caller });
        let mut handover = Handover { job: Some(job), sender: self.sender.clone() };
        Box::pin(async move {
            let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| StoreError::Closed)?;
            handover.send(Some(permit));
            answer.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    pub(super) fn close(&self) -> StoreFuture<'_, ()> {
        let (caller, answer) = oneshot::channel();
        let sent = self.sender.send(Message::Close(caller));
        Box::pin(async move {
            match sent {
                Ok(()) => answer.await.unwrap_or(Ok(())),
                // Closed before.
                Err(_) => Ok(()),
            }
        })
    }
}

/// A job on its way into the queue, whether its future goes on or not.
struct Handover {
    job: Option<Box<dyn Job>>,
    sender: UnboundedSender<Message>,
}

impl Handover {
    fn send(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if let Some(job) = self.job.take() {
            // A closed queue drops the job and with it the caller's channel: the answer is `Closed`.
            let _ = self.sender.send(Message::Job(job, permit));
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if self.job.as_ref().is_some_and(|job| job.writes()) {
            self.send(None);
        }
    }
}

/// The thread: a group, one flush, the answers, and again.
fn serve(engine: Engine, mut receiver: UnboundedReceiver<Message>) {
    // `None` once the engine has panicked: nothing of it can be trusted or even dropped, its locks may be held.
    let mut engine = Some(engine);
    let mut broken: Option<StoreError> = None;
    let mut closing = None;
    while closing.is_none()
        && let Some(first) = receiver.blocking_recv()
    {
        let mut group = VecDeque::new();
        let mut next = Some(first);
        while let Some(message) = next.take() {
            match message {
                Message::Job(job, permit) => group.push_back((job, permit)),
                Message::Close(caller) => closing = Some(caller),
            }
            if closing.is_none() && group.len() < GROUP {
                next = receiver.try_recv().ok();
            }
        }
        let Some(live) = engine.as_mut() else {
            group.into_iter().for_each(|(job, _permit)| job.answer(broken.clone()));
            continue;
        };
        match catch_unwind(AssertUnwindSafe(|| carry_out(live, &mut group))) {
            Ok(error) => {
                for (job, _permit) in group {
                    let error = if job.writes() { error.clone() } else { None };
                    job.answer(error);
                }
            }
            Err(_) => {
                broken = Some(StoreError::Failed(
                    "the engine stopped on damaged data or an error of its own; start avernest again".into(),
                ));
                tracing::error!("the data store's engine has panicked: every operation is refused from now on");
                std::mem::forget(engine.take());
                group.into_iter().for_each(|(job, _permit)| job.answer(broken.clone()));
            }
        }
    }
    let result = match engine {
        // Dropping sled can panic as well as using it.
        Some(engine) => catch_unwind(AssertUnwindSafe(|| close(engine)))
            .unwrap_or_else(|_| Err(StoreError::Failed("the engine stopped while it was closed".into()))),
        None => Err(broken.unwrap_or(StoreError::Closed)),
    };
    receiver.close();
    if let Some(caller) = closing {
        let _ = caller.send(result);
    }
    // Whoever came later gets `Closed`. This also waits for those that were just being sent.
    while let Some(message) = receiver.blocking_recv() {
        match message {
            Message::Job(job, _permit) => job.answer(Some(StoreError::Closed)),
            Message::Close(caller) => drop(caller.send(Ok(()))),
        }
    }
}

/// Carries out a group. What comes back is the error of all its writes, if they could not be made durable.
fn carry_out(
    engine: &mut Engine,
    group: &mut VecDeque<(Box<dyn Job>, Option<OwnedSemaphorePermit>)>,
) -> Option<StoreError> {
    for (job, _permit) in group {
        if job.writes() {
            // A failed write earlier in the group fails the whole group.
            if engine.failure().is_none() {
                job.carry_out(engine);
            }
        } else if !job.forgotten() {
            job.carry_out(engine);
        }
    }
    if engine.failure().is_none() {
        // Its error is kept in the engine.
        let _ = engine.flush();
    }
    engine.failure()
}

fn close(mut engine: Engine) -> Result<(), StoreError> {
    let result = match engine.failure() {
        None => engine.flush(),
        Some(error) => Err(error),
    };
    drop(engine);
    result
}
