//! The bots of a folder, ready to be called: registry, runtime and logs together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::cache::{ArtifactDigest, DigestLedger, LedgerFuture};
use super::loader::{LoadFailure, LoadFuture, Loader};
use super::logs::{BotLogs, DEFAULT_MAX_BYTES};
use super::registry::{BotStatus, FileProblem, Lookup, Registry, RegistryOptions, Served};
use super::{Call, CallEnd, Compiler, Limits, LogLevel, LogSource, Prepared, Runtime, RuntimeOptions};
use crate::store::Store;
use crate::wire::BotRef;

/// What the bots need.
pub struct BotHostOptions {
    /// The plugins folder.
    pub plugins: PathBuf,
    /// How often it is read.
    pub poll: Duration,
    /// The data directory: compiled components and bots' logs are kept under it.
    pub data: PathBuf,
    /// What a bot may use, if its manifest says nothing else.
    pub limits: Limits,
    /// Guest threads; 0 = one a core.
    pub threads: usize,
    /// Linear memory of all instances together, in bytes.
    pub total_memory_bytes: usize,
    /// Calls at once.
    pub max_running: usize,
    /// Keeps the digests of compiled components.
    pub store: Arc<dyn Store>,
}

/// Places for components that are tried while they are loaded, besides those for calls.
const LOADS_AT_ONCE: usize = 64;

/// A bot that can be called.
pub type ServedBot = Served<Prepared>;

/// All bots of this process.
pub struct BotHost {
    runtime: Arc<Runtime>,
    registry: Arc<Registry<RuntimeLoader>>,
    logs: BotLogs,
}

impl BotHost {
    /// Starts the guest threads and begins to load what is in the folder.
    ///
    /// # Errors
    /// A sentence for a directory that cannot be used, or threads that cannot be had.
    pub fn start(options: BotHostOptions) -> anyhow::Result<Arc<Self>> {
        let handle = Handle::current();
        let logs = options.data.join("bot-logs");
        let logs = BotLogs::open(&logs, DEFAULT_MAX_BYTES)
            .with_context(|| format!("The bots' logs cannot be kept in {}", logs.display()))?;
        let compiler = Compiler::this_executable().context("The program's own path is unknown")?;
        let ledger = Arc::new(StoredDigests(options.store));
        let mut runtime = RuntimeOptions::new(compiler, Some(options.data.join("compiled")), ledger);
        runtime.threads = (options.threads > 0).then_some(options.threads);
        runtime.total_memory_bytes = options.total_memory_bytes;
        runtime.at_once = options.max_running.saturating_add(LOADS_AT_ONCE);
        let runtime = Arc::new(Runtime::new(runtime, &handle).map_err(|why| anyhow!("The bots cannot be run: {why}"))?);
        let mut folder = RegistryOptions::new(options.plugins);
        folder.poll_interval = options.poll;
        folder.default_limits = options.limits;
        let registry = Registry::start(folder, Arc::new(RuntimeLoader(runtime.clone())), &handle);
        Ok(Arc::new(Self { runtime, registry, logs }))
    }

    /// Waits until the files that were there at the start have been tried.
    pub async fn scanned(&self) {
        self.registry.first_scan().await;
    }

    /// What is served under a reference.
    #[must_use]
    pub fn lookup(&self, bot: &BotRef) -> Lookup<Prepared> {
        self.registry.lookup(bot)
    }

    /// Whether there is anything under a reference, in whatever state.
    #[must_use]
    pub fn is_known(&self, bot: &BotRef) -> bool {
        !matches!(self.registry.lookup(bot), Lookup::Unknown)
    }

    /// Tells when the answer of [`BotHost::lookup`] may have changed.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.registry.changed()
    }

    /// How each bot stands.
    #[must_use]
    pub fn statuses(&self) -> Vec<BotStatus> {
        self.registry.statuses()
    }

    /// How one bot stands.
    #[must_use]
    pub fn status(&self, bot: &BotRef) -> Option<BotStatus> {
        self.registry.status(bot)
    }

    /// Files that are served under no reference.
    #[must_use]
    pub fn problems(&self) -> Vec<FileProblem> {
        self.registry.problems()
    }

    /// The bots whose runs may begin again after a crash.
    #[must_use]
    pub fn rerun_after_crash(&self) -> Vec<BotRef> {
        let allowed = |bot: &BotRef| match self.registry.lookup(bot) {
            Lookup::Serving(served) => served.manifest.rerun_after_crash,
            _ => false,
        };
        self.registry.statuses().into_iter().map(|s| s.bot_ref).filter(allowed).collect()
    }

    /// Calls a bot: a fresh instance on a guest thread. Dropping the future stops it.
    pub async fn call(&self, bot: &ServedBot, call: Call) -> CallEnd {
        let log = self.logs.for_bot(&bot.bot_ref);
        let request = call.request.id.clone();
        let end = self.runtime.call(&bot.bot, &bot.limits, Arc::new(log.clone()), call).await;
        if let Err(error) = &end.result {
            // What went wrong may hold the guest's own text, so it goes to the bot's log. Where it was is for the
            // bot's author only, and not for the network.
            let mut text = format!("{}: {error}", error.kind());
            if let Some(backtrace) = &end.report.backtrace {
                text.push('\n');
                text.push_str(backtrace);
            }
            log.line(LogLevel::Error, LogSource::Host, Some(&request), text);
        }
        end
    }

    /// Stops at once what has just been cancelled.
    pub fn nudge(&self) {
        self.runtime.guests().nudge();
    }

    /// Ends the watching, the guest threads and the logs.
    pub async fn shutdown(self: &Arc<Self>) {
        self.registry.shutdown().await;
        let host = self.clone();
        let ended = tokio::task::spawn_blocking(move || {
            host.runtime.shutdown();
            host.logs.close();
        });
        if let Err(error) = ended.await {
            tracing::error!(%error, "the bots did not stop well");
        }
    }
}

/// Loads files with the runtime.
struct RuntimeLoader(Arc<Runtime>);

impl Loader for RuntimeLoader {
    type Bot = Prepared;

    fn load(&self, _name: &str, wasm: Vec<u8>) -> LoadFuture<Prepared> {
        let runtime = self.0.clone();
        Box::pin(async move {
            let loaded = runtime.prepare(wasm).await;
            loaded.map_err(|e| LoadFailure { incomplete: e.is_incomplete(), message: e.to_string() })
        })
    }
}

/// The digests of compiled components, in the store.
struct StoredDigests(Arc<dyn Store>);

impl DigestLedger for StoredDigests {
    fn get(&self, key: &str) -> LedgerFuture<'_, Option<ArtifactDigest>> {
        let digest = self.0.artifact(key);
        Box::pin(async move { digest.await.map_err(|e| e.to_string()) })
    }

    fn put(&self, key: &str, digest: ArtifactDigest) -> LedgerFuture<'_, ()> {
        let kept = self.0.put_artifact(key, digest);
        Box::pin(async move { kept.await.map_err(|e| e.to_string()) })
    }
}
