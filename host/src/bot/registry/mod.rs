//! The bots that are served now. The folder's watcher keeps them up to date; everybody else asks.

mod status;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::status::{BotState, BotStatus, FileProblem, LastError};
use super::Limits;
use super::loader::Loader;
use super::manifest::Manifest;
use super::watcher::Watcher;
use crate::wire::BotRef;

/// How the folder is watched.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// The plugins folder; made if it is missing.
    pub dir: PathBuf,
    /// What a bot may use where its manifest says nothing.
    pub default_limits: Limits,
    /// The folder is looked through at least this often, whatever the events say.
    pub poll_interval: Duration,
    /// A file is read when it has not changed for this long.
    pub settle: Duration,
    /// A file changed less than this ago that cannot be loaded may still be being written: it is not called broken yet.
    pub young: Duration,
    /// A longer `.wasm` is refused, in bytes.
    pub max_wasm_bytes: u64,
    /// Whether the system is asked to report changes; else they are found by looking only.
    pub events: bool,
}

impl RegistryOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            default_limits: Limits::default(),
            poll_interval: Duration::from_secs(2),
            settle: Duration::from_millis(200),
            young: Duration::from_secs(5),
            max_wasm_bytes: 128 * 1024 * 1024,
            events: true,
        }
    }
}

/// A bot that can be called. A run keeps the one it began with.
pub struct Served<B> {
    /// Its `provider_bot_ref`.
    pub bot_ref: BotRef,
    /// What is called.
    pub bot: Arc<B>,
    /// SHA-256 of its `.wasm`, in hex: its version.
    pub hash: String,
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// What it may use: the host's limits, and its manifest's in their place.
    pub limits: Limits,
    /// The file that gives it, relative to the plugins folder.
    pub file: String,
    /// Since when it is served, Unix milliseconds.
    pub since: u64,
}

/// What there is under a reference.
pub enum Lookup<B> {
    /// A bot.
    Serving(Arc<Served<B>>),
    /// A bot that is being loaded, or a folder that has not been looked through yet: it may come.
    Loading,
    /// A file that cannot be served; why, in a sentence.
    Broken(String),
    /// Nothing.
    Unknown,
}

/// The current set of bots.
pub struct Registry<L: Loader> {
    shared: Arc<Shared<L::Bot>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl<L: Loader> Registry<L> {
    /// Begins to watch the folder. Bots come as they are loaded; see [`Registry::first_scan`].
    pub fn start(options: RegistryOptions, loader: Arc<L>, handle: &Handle) -> Arc<Self> {
        let shared = Arc::new(Shared::new());
        let stop = CancellationToken::new();
        let watcher = Watcher::new(options, loader, Arc::clone(&shared), stop.clone(), handle.clone());
        let task = handle.spawn(watcher.run());
        Arc::new(Self { shared, stop, task: Mutex::new(Some(task)) })
    }

    /// Waits until the files that were there at the start have been tried, or the registry is shut down.
    pub async fn first_scan(&self) {
        let mut done = self.shared.first_scan.subscribe();
        // An error means that the watcher is gone, and it says that it is done before it goes.
        let _ = done.wait_for(|done| *done).await;
    }

    /// What is served under a reference.
    #[must_use]
    pub fn lookup(&self, bot: &BotRef) -> Lookup<L::Bot> {
        let published = self.shared.read();
        match published.bots.get(bot) {
            Some(Slot { serving: Some(served), .. }) => Lookup::Serving(Arc::clone(served)),
            Some(slot) => match (&slot.status.state, &slot.status.last_error) {
                (BotState::Broken, Some(error)) => Lookup::Broken(error.message.clone()),
                _ => Lookup::Loading,
            },
            None if *self.shared.first_scan.borrow() => Lookup::Unknown,
            None => Lookup::Loading,
        }
    }

    /// How each bot stands, in order of reference.
    #[must_use]
    pub fn statuses(&self) -> Vec<BotStatus> {
        let mut all: Vec<BotStatus> = self.shared.read().bots.values().map(|slot| slot.status.clone()).collect();
        all.sort_by(|a, b| a.bot_ref.cmp(&b.bot_ref));
        all
    }

    /// How one bot stands; `None` if there is nothing under this reference.
    #[must_use]
    pub fn status(&self, bot: &BotRef) -> Option<BotStatus> {
        self.shared.read().bots.get(bot).map(|slot| slot.status.clone())
    }

    /// Files that are served under no reference, and the folder itself if it cannot be read, in order of name.
    #[must_use]
    pub fn problems(&self) -> Vec<FileProblem> {
        let published = self.shared.read();
        let mut all: Vec<FileProblem> = published.problems.values().chain(&published.folder).cloned().collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        all
    }

    /// A number that rises with every change of what the other questions answer.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// Ends the watching. The bots stay as they are.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // It only fails if it panicked, which has been reported by then.
            let _ = task.await;
        }
    }
}

impl<L: Loader> Drop for Registry<L> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What the watcher writes and everybody reads. Its lock is held for a look or a swap only.
pub(super) struct Shared<B> {
    published: RwLock<Published<B>>,
    version: watch::Sender<u64>,
    first_scan: watch::Sender<bool>,
}

struct Published<B> {
    bots: HashMap<BotRef, Slot<B>>,
    problems: HashMap<String, FileProblem>,
    folder: Option<FileProblem>,
}

/// One bot as it is published.
pub(super) struct Slot<B> {
    pub(super) serving: Option<Arc<Served<B>>>,
    pub(super) status: BotStatus,
}

impl<B> Shared<B> {
    fn new() -> Self {
        let published = Published { bots: HashMap::new(), problems: HashMap::new(), folder: None };
        Self {
            published: RwLock::new(published),
            version: watch::Sender::new(0),
            first_scan: watch::Sender::new(false),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Published<B>> {
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `slots` in the place of what was published under `old`, and the problem in the place of the file's last,
    /// in one step.
    pub(super) fn publish(&self, old: &[BotRef], slots: Vec<Slot<B>>, file: &str, problem: Option<FileProblem>) {
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        for bot in old {
            published.bots.remove(bot);
        }
        for slot in slots {
            published.bots.insert(slot.status.bot_ref.clone(), slot);
        }
        match problem {
            Some(problem) => published.problems.insert(file.to_owned(), problem),
            None => published.problems.remove(file),
        };
        drop(published);
        self.version.send_modify(|version| *version += 1);
    }

    pub(super) fn folder_problem(&self) -> Option<FileProblem> {
        self.read().folder.clone()
    }

    pub(super) fn publish_folder(&self, problem: Option<FileProblem>) {
        self.published.write().unwrap_or_else(PoisonError::into_inner).folder = problem;
        self.version.send_modify(|version| *version += 1);
    }

    pub(super) fn first_scan_done(&self) {
        self.first_scan.send_replace(true);
    }
}

#[cfg(test)]
mod tests;
