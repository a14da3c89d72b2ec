//! Everything that runs bots: the engine, the compile cache and the guest threads.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use wasmtime::component::Component;

use super::cache::{self, Cache, DigestLedger};
use super::call::{Call, CallEnd, Export, Limits};
use super::compile::Compiler;
use super::component::{Linkers, Prepared};
use super::engine::Engines;
use super::executor::{Guests, TaskState};
use super::inspect::inspect;
use super::invoke::Job;
use super::limits::MemoryBudget;
use super::load_error::LoadError;
use super::log::BotLog;
use super::{trial, world};

/// Components that are compiled at once, whatever is waiting: each takes seconds of all cores.
const COMPILES: usize = 2;

/// How a [`Runtime`] is to be.
pub struct RuntimeOptions {
    /// Guest threads; `None` is one a core.
    pub threads: Option<usize>,
    /// Linear memory of all guests together, in bytes (`limits.guest_memory_mb`).
    pub total_memory_bytes: usize,
    /// Where compiled components are kept; `None` compiles each time.
    pub cache_dir: Option<PathBuf>,
    /// What vouches for the files in `cache_dir`.
    pub ledger: Arc<dyn DigestLedger>,
    /// Calls at once for which places are kept (`limits.max_running` and a few).
    pub at_once: usize,
    /// How components are compiled.
    pub compiler: Compiler,
    /// How long a compile in a child process may take.
    pub compile_timeout: Duration,
}

impl RuntimeOptions {
    /// The defaults: all cores, 4 GiB, 256 places, two minutes.
    #[must_use]
    pub fn new(compiler: Compiler, cache_dir: Option<PathBuf>, ledger: Arc<dyn DigestLedger>) -> Self {
        Self {
            threads: None,
            total_memory_bytes: 4 << 30,
            at_once: 256,
            cache_dir,
            ledger,
            compiler,
            compile_timeout: Duration::from_secs(120),
        }
    }
}

/// Runs bots. One a process.
pub struct Runtime {
    engines: Engines,
    linkers: Linkers,
    guests: Arc<Guests>,
    budget: Arc<MemoryBudget>,
    cache: Option<Cache>,
    compiler: Compiler,
    compile_timeout: Duration,
    compiles: Semaphore,
    loaded: Mutex<HashMap<String, Slot>>,
    active: Arc<Active>,
}

/// One component's place: taken by whoever loads it, so that it is loaded once.
type Slot = Arc<tokio::sync::Mutex<Weak<Prepared>>>;

#[derive(Default)]
struct Active {
    calls: AtomicUsize,
    idle: Notify,
}

/// Counts a call as long as it lives.
struct ActiveCall(Arc<Active>);

impl Runtime {
    /// Starts the guest threads. What guests wait for (timers, the store) runs on `handle`'s runtime.
    ///
    /// # Errors
    /// A sentence: wasmtime does not support this machine, the cache directory cannot be used, or the system gives
    /// no threads.
    pub fn new(options: RuntimeOptions, handle: &Handle) -> Result<Self, String> {
        let engines = Engines::new(options.at_once)?;
        let linkers = Linkers::new(&engines).map_err(|error| format!("the host's imports do not link: {error:#}"))?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(cores).max(1);
        let guests = Guests::start(engines.clone(), threads, handle)
            .map_err(|error| format!("the guest threads could not be started: {error}"))?;
        let cache = options.cache_dir.map(|dir| Cache::open(dir, options.ledger)).transpose()?;
        Ok(Self {
            engines,
            linkers,
            guests: Arc::new(guests),
            budget: Arc::new(MemoryBudget::new(options.total_memory_bytes)),
            cache,
            compiler: options.compiler,
            compile_timeout: options.compile_timeout,
            compiles: Semaphore::new(COMPILES),
            loaded: Mutex::default(),
            active: Arc::default(),
        })
    }

    /// Checks, compiles (or takes from the cache), links and tries a component. The same bytes give the same
    /// [`Prepared`] as long as somebody has it.
    ///
    /// # Errors
    /// Why it cannot serve.
    pub async fn prepare(&self, wasm: Vec<u8>) -> Result<Arc<Prepared>, LoadError> {
        let began = Instant::now();
        let checked = tokio::task::spawn_blocking(move || {
            let shape = inspect(&wasm)?;
            world::check(&shape)?;
            let hash = cache::hash_of(&wasm);
            Ok((wasm, hash))
        });
        let (wasm, hash) =
            checked.await.map_err(|error| LoadError::Internal(format!("checking it failed: {error}")))??;
        let slot = self.slot(&hash);
        let mut place = slot.lock().await;
        if let Some(prepared) = place.upgrade() {
            return Ok(prepared);
        }
        let size = wasm.len();
        let (component, compile_time) = self.component(wasm, &hash).await?;
        let pre = self.linkers.link(&component)?;
        let prepared = Arc::new(Prepared { hash, size, compile_time, load_time: began.elapsed(), pre });
        self.try_start(&prepared).await?;
        *place = Arc::downgrade(&prepared);
        Ok(prepared)
    }

    /// One call of a bot: a fresh instance on a guest thread. Begins when the future is first polled; dropping it
    /// ends the guest.
    pub fn call(
        &self,
        prepared: &Arc<Prepared>,
        limits: &Limits,
        log: Arc<dyn BotLog>,
        call: Call,
    ) -> impl Future<Output = CallEnd> + Send + use<> {
        let (job, guests) = (self.job(prepared, limits.clone(), log, call), self.guests.clone());
        let active = self.active.clone();
        async move {
            let _active = ActiveCall::begin(active);
            let mut job = job;
            job.start_clock();
            let guest = guests.spawn(job.state.clone(), job.run());
            guest.end().await.unwrap_or_else(CallEnd::internal)
        }
    }

    /// The guest threads, to be nudged after a cancel.
    #[must_use]
    pub fn guests(&self) -> &Arc<Guests> {
        &self.guests
    }

    /// Linear memory of all guests now, in bytes.
    #[must_use]
    pub fn memory_used(&self) -> usize {
        self.budget.used()
    }

    /// Calls under way.
    #[must_use]
    pub fn active_calls(&self) -> usize {
        self.active.calls.load(Ordering::SeqCst)
    }

    /// Waits until no call is under way.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.active.idle.notified();
            tokio::pin!(idle);
            // Registered before the look, so that an end in between is not missed.
            idle.as_mut().enable();
            if self.active_calls() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Stops the guest threads and waits for them; calls that are under way end as internal errors. Takes a few
    /// milliseconds.
    pub fn shutdown(&self) {
        self.guests.shutdown();
    }

    fn job(&self, prepared: &Arc<Prepared>, limits: Limits, log: Arc<dyn BotLog>, call: Call) -> Job {
        let state = Arc::new(TaskState::new(call.cancel.clone(), None, limits.cpu_time));
        Job { prepared: prepared.clone(), limits, budget: self.budget.clone(), log, call, state, until: None }
    }

    fn slot(&self, hash: &str) -> Slot {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // Forget what nobody has or waits for.
        loaded.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|place| place.strong_count() > 0)
        });
        loaded.entry(hash.to_owned()).or_default().clone()
    }

    async fn component(&self, wasm: Vec<u8>, hash: &str) -> Result<(Component, Option<Duration>), LoadError> {
        let key = cache::key(&self.engines.on_demand, hash);
        if let Some(cache) = &self.cache
            && let Some(component) = cache.load(&self.engines, &key).await
        {
            return Ok((component, None));
        }
        let _turn = self.compiles.acquire().await.map_err(|error| LoadError::Internal(error.to_string()))?;
        let began = Instant::now();
        let code = Arc::new(self.compiler.compile(wasm, self.compile_timeout).await?);
        let (engines, compiled) = (self.engines.clone(), code.clone());
        let component = tokio::task::spawn_blocking(move || cache::load_compiled(&engines, &compiled))
            .await
            .map_err(|error| LoadError::Internal(error.to_string()))?
            .map_err(|error| LoadError::Compile(format!("the compiler gave what this host cannot load: {error:#}")))?;
        let took = began.elapsed();
        if let Some(cache) = &self.cache
            && let Err(error) = cache.store(&key, code).await
        {
            // It serves all the same; only the next start has to compile again.
            tracing::warn!(key, error = ?error, "a compiled component could not be kept");
        }
        Ok((component, Some(took)))
    }

    /// A component that cannot even start is a bad build: better known now than at the first message.
    async fn try_start(&self, prepared: &Arc<Prepared>) -> Result<(), LoadError> {
        let job = self.job(prepared, trial::limits(), trial::log(), trial::call());
        let guest = self.guests.spawn(job.state.clone(), job.try_start());
        match guest.end().await {
            Ok(started) => started.map_err(|error| LoadError::Start(error.to_string())),
            Err(error) => Err(LoadError::Internal(error)),
        }
    }
}

impl ActiveCall {
    fn begin(active: Arc<Active>) -> Self {
        active.calls.fetch_add(1, Ordering::SeqCst);
        Self(active)
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        if self.0.calls.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Job {
    /// Begins the time of an `inject`, and lets the bot see its end.
    fn start_clock(&mut self) {
        if self.call.export == Export::Inject {
            self.until = Some(Instant::now() + self.limits.inject_time);
            let wall = (SystemTime::now() + self.limits.inject_time).duration_since(UNIX_EPOCH).unwrap_or_default();
            let deadline = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
            self.call.request.deadline = self.call.request.deadline.min(deadline);
            self.state = Arc::new(TaskState::new(self.call.cancel.clone(), self.until, self.limits.cpu_time));
        }
    }
}
