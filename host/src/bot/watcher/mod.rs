//! Keeps the registry in step with the plugins folder.
//!
//! One task owns everything known of the files. It looks through the folder when the system reports a change and every
//! poll interval; files that have not changed for the settle time are read, loaded (two at once) and swapped in. What
//! cannot be loaded leaves what was served before. Reading and looking happen on blocking threads.

mod claims;
mod events;
mod folder;
mod load;
mod outcome;
mod read;
mod scan;
mod unit;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::claims::Claims;
use self::events::Events;
use self::load::{Job, LoadEnd};
use self::read::{Prepared, prepare};
use self::scan::{Sight, look_through};
use self::unit::Unit;
use super::loader::Loader;
use super::registry::{RegistryOptions, Shared};

/// Loads at once: a compile takes a core and much memory.
const MAX_LOADS: usize = 2;
/// The least time between two looks, however many events there are.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// The task's own state.
pub(super) struct Watcher<L: Loader> {
    options: RegistryOptions,
    loader: Arc<L>,
    shared: Arc<Shared<L::Bot>>,
    stop: CancellationToken,
    handle: Handle,
    poke: Arc<Notify>,
    events: Events,
    units: BTreeMap<OsString, Unit<L::Bot>>,
    claims: Claims,
    queue: VecDeque<Job>,
    loads: JoinSet<(Job, LoadEnd<L::Bot>)>,
    next_look: Instant,
    last_look: Instant,
    generations: u64,
    /// Files of the first look that have not been tried; `None` before it.
    first: Option<BTreeSet<OsString>>,
}

impl<L: Loader> Watcher<L> {
    pub(super) fn new(
        options: RegistryOptions,
        loader: Arc<L>,
        shared: Arc<Shared<L::Bot>>,
        stop: CancellationToken,
        handle: Handle,
    ) -> Self {
        let poke = Arc::new(Notify::new());
        let events = Events::new(options.events, Arc::clone(&poke));
        let now = Instant::now();
        Self {
            options,
            loader,
            shared,
            stop,
            handle,
            poke,
            events,
            units: BTreeMap::new(),
            claims: Claims::default(),
            queue: VecDeque::new(),
            loads: JoinSet::new(),
            next_look: now,
            last_look: now,
            generations: 0,
            first: None,
        }
    }

    /// Watches until it is stopped.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        // A look at a dead network share may never come back, so the stop cuts in everywhere.
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.watch() => {}
        }
        self.shared.first_scan_done();
    }

    async fn watch(&mut self) {
        self.make_folder().await;
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.loads.join_next() => match ended {
                    Ok((job, end)) => self.loaded(job, end),
                    // Only a cancelled task ends so, and nobody cancels one before the stop.
                    Err(error) => tracing::error!(%error, "a load of a bot was lost"),
                },
                () = sleep_until(self.next_look) => self.look().await,
                () = self.poke.notified() => {
                    self.next_look = self.next_look.min(Instant::now().max(self.last_look + MIN_PAUSE));
                }
            }
            self.begin_loads();
            if self.first.as_ref().is_some_and(BTreeSet::is_empty) {
                self.shared.first_scan_done();
            }
        }
    }

    /// Looks through the folder and deals with what is stable.
    async fn look(&mut self) {
        let dir = self.options.dir.clone();
        let folder = self.blocking(move || {
            let meta = std::fs::metadata(&dir)?;
            if meta.is_dir() { Ok((meta.dev(), meta.ino())) } else { Err(io::ErrorKind::NotADirectory.into()) }
        });
        // Watched before it is looked through, so that nothing falls in between.
        let found = match folder.await {
            Ok(folder) => {
                self.events.follow(&self.options.dir, folder);
                let dir = self.options.dir.clone();
                let known: HashMap<_, _> =
                    self.units.iter().map(|(stem, unit)| (stem.clone(), unit.component.clone())).collect();
                self.blocking(move || look_through(&dir, &known)).await
            }
            Err(error) => Err(error),
        };
        let now = Instant::now();
        self.last_look = now;
        self.next_look = now + self.options.poll_interval;
        match found {
            Ok(found) => {
                self.folder_answers();
                self.observe(found, now);
                self.remove_gone(now);
                self.try_due(now).await;
                let wakes = self.units.values().filter_map(Unit::wakes_at).min();
                let next = wakes.map_or(self.next_look, |at| self.next_look.min(at));
                self.next_look = next.max(now + MIN_PAUSE);
            }
            Err(error) => self.folder_fails(&error),
        }
    }

    fn observe(&mut self, mut found: BTreeMap<OsString, Sight>, now: Instant) {
        let settled = now + self.options.settle;
        let starting = self.first.is_none();
        for unit in self.units.values_mut() {
            // What keeps changing does not hold up the start.
            if unit.observe(found.remove(&unit.stem), settled)
                && unit.tried.is_none()
                && let Some(first) = &mut self.first
            {
                first.remove(&unit.stem);
            }
        }
        if starting {
            self.first = Some(found.keys().cloned().collect());
        }
        // Files that were there before this process and have been left alone need not be watched any longer. All or
        // none, so that of two with one reference the first by name is tried first.
        let wall = SystemTime::now();
        let quiet = |sight: &Sight| sight.stamps().all(|stamp| stamp.quiet(wall) > self.options.settle);
        let ready_at = if starting && found.values().all(quiet) { now } else { settled };
        for (stem, sight) in found {
            self.generations += 1;
            let mut unit = Unit::new(self.generations, stem.clone(), ready_at);
            unit.observe(Some(sight), ready_at);
            self.units.insert(stem, unit);
        }
    }

    fn remove_gone(&mut self, now: Instant) {
        let gone: Vec<OsString> =
            self.units.values().filter(|unit| unit.is_gone(now)).map(|unit| unit.stem.clone()).collect();
        for stem in gone {
            self.remove(&stem);
        }
    }

    /// Reads the manifests of what is stable, gives out the references, and queues the loads.
    async fn try_due(&mut self, now: Instant) {
        let due: Vec<(OsString, Sight)> = self
            .units
            .values()
            .filter(|unit| unit.is_due(now))
            .filter_map(|unit| Some((unit.stem.clone(), unit.sight.clone()?)))
            .collect();
        if due.is_empty() {
            return;
        }
        let dir = self.options.dir.clone();
        let settle = self.options.settle;
        let prepared = self.blocking(move || {
            let prepare_one = |(stem, mut sight): (OsString, Sight)| {
                let prepared = prepare(&dir, &stem, &mut sight, settle);
                (stem, sight, prepared)
            };
            Ok(due.into_iter().map(prepare_one).collect::<Vec<_>>())
        });
        let mut prepared = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) => return tracing::error!(%error, "the plugins folder's files could not be read"),
        };
        // In order of name, but a file that can be read comes before one that can only be guessed to give a reference.
        prepared.sort_by_key(|(_, _, prepared)| matches!(prepared, Prepared::Refused(_)));
        // References that are given up are free before any is taken: files may change places.
        for (stem, _, prepared) in &prepared {
            if let Prepared::Ready { bot_ref, .. } = prepared {
                self.give_up_others(stem, bot_ref);
            }
        }
        for (stem, sight, prepared) in prepared {
            self.prepared(stem, sight, prepared);
        }
    }

    fn begin_loads(&mut self) {
        while self.loads.len() < MAX_LOADS {
            let Some(job) = self.queue.pop_front() else { return };
            let Some(unit) = self.units.get(&job.stem).filter(|unit| unit.generation == job.generation) else {
                continue;
            };
            let serving = unit.serving.clone();
            let (dir, max) = (self.options.dir.clone(), self.options.max_wasm_bytes);
            let loader = Arc::clone(&self.loader);
            let loading = async move {
                let end = load::load(&job, &dir, max, &*loader, serving).await;
                (job, end)
            };
            self.loads.spawn_on(loading, &self.handle);
        }
    }

    /// Runs what may wait for a disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match self.handle.spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
