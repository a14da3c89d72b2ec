//! The whole provider, wired together: what `avernest serve` runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::bot::{BotHost, BotHostOptions};
use crate::clock::now_ms;
use crate::config::{AuthMode, Config, ProviderConfig};
use crate::network::{self, BcsClient, Credentials, Outbox, OutboxHandle};
use crate::run::{LogBounds, RunOptions, Runs};
use crate::server::{self, ServerOptions};
use crate::store::{OpenOptions, Retention, SledStore, Store};
use crate::webhook::{Door, DoorOptions};

/// How often old records are looked for, and how many are removed at a time.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
const EXPIRE_BUDGET: usize = 500;
/// How long deliveries and connections under way have when the host stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A running provider.
pub struct Host {
    address: SocketAddr,
    path: String,
    drain: Duration,
    door: Door,
    runs: Runs,
    bots: Arc<BotHost>,
    outbox: OutboxHandle,
    store: Arc<dyn Store>,
    stop_server: watch::Sender<bool>,
    server: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Host {
    /// Starts everything; when this returns, requests are served.
    ///
    /// # Errors
    /// A sentence for what cannot be opened or bound.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(config.server.listen)
            .await
            .with_context(|| format!("The address {} cannot be listened on (`server.listen`)", config.server.listen))?;
        let address = listener.local_addr().context("The bound address cannot be read")?;
        let store: Arc<dyn Store> = Arc::new(SledStore::open(OpenOptions {
            dir: config.data.dir.join("store"),
            cache_bytes: config.data.cache_bytes,
        })?);
        let bots = BotHost::start(BotHostOptions {
            plugins: config.plugins.dir.clone(),
            poll: config.plugins.poll,
            data: config.data.dir.clone(),
            limits: config.limits.bot.clone(),
            threads: config.limits.guest_threads,
            total_memory_bytes: config.limits.guest_memory_bytes,
            max_running: config.limits.running,
            store: store.clone(),
        })?;
        let outbox = Outbox::spawn(store.clone(), Arc::new(bcs_client(&config.provider)?), network::Options::default());
        let runs = Runs::new(
            store.clone(),
            bots.clone(),
            outbox.clone(),
            RunOptions {
                max_running: config.limits.running,
                pending_session: config.limits.pending_session,
                pending_total: config.limits.pending_total,
                detach_grace: config.runs.detach_grace,
                keep_ended: config.runs.keep_ended,
                log: LogBounds { events: config.runs.log_events, bytes: config.runs.log_bytes },
            },
        );
        let door = Door::new(door_options(&config), runs.clone(), bots.clone());
        let (stop_server, stopped) = watch::channel(false);
        let server = tokio::spawn(server::serve(
            listener,
            door.router(),
            ServerOptions {
                max_connections: config.server.max_connections,
                header_timeout: config.server.header_timeout,
                idle_timeout: config.server.idle_timeout,
            },
            stopped,
        ));
        // Health answers already; the webhook waits for this.
        bots.scanned().await;
        let recovery = runs.recover(bots.rerun_after_crash()).await.context("What the last run left cannot be read")?;
        if recovery.pending.len() + recovery.failed + recovery.rerun + recovery.orphaned + recovery.hooks.len() > 0 {
            tracing::info!(
                pending = recovery.pending.len(),
                failed = recovery.failed,
                rerun = recovery.rerun,
                orphaned = recovery.orphaned,
                injects = recovery.hooks.len(),
                "took up what the last run left"
            );
        }
        door.open();
        let ids_ms = u64::try_from(config.limits.idempotency.as_millis()).unwrap_or(u64::MAX);
        let keeper = tokio::spawn(keep(store.clone(), Retention { ids_ms }));
        if config.provider.bcs_url.is_none() {
            tracing::warn!("`provider.bcs_url` is not set: callbacks wait in the outbox until it is");
        }
        Ok(Self {
            address,
            path: config.server.path,
            drain: config.server.drain,
            door,
            runs,
            bots,
            outbox,
            store,
            stop_server,
            server,
            keeper,
        })
    }

    /// The address really bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The webhook's path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How long runs may go on when the host stops.
    #[must_use]
    pub fn drain_time(&self) -> Duration {
        self.drain
    }

    /// Stops in good order: nothing new, runs may finish, every stream gets its end, everything is on disk. When
    /// `hurry` is ready, runs have had their time.
    ///
    /// # Errors
    /// A sentence if the store could not be closed well.
    pub async fn stop(self, hurry: impl Future<Output = ()>) -> anyhow::Result<()> {
        self.door.close();
        let hurried = tokio::select! {
            () = self.runs.drain(self.drain) => false,
            () = hurry => true,
        };
        if hurried {
            self.runs.drain(Duration::ZERO).await;
        }
        self.stop_server.send_replace(true);
        if tokio::time::timeout(STOP_PATIENCE, self.server).await.is_err() {
            tracing::warn!("some clients did not take the end of their stream in time");
        }
        self.outbox.shutdown(STOP_PATIENCE).await;
        self.keeper.abort();
        self.bots.shutdown().await;
        if let Err(error) = self.store.close().await {
            bail!("The data store could not be closed: {error}.");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

fn bcs_client(provider: &ProviderConfig) -> anyhow::Result<BcsClient> {
    let credentials = match (provider.auth_mode, &provider.provider_admin_token) {
        (AuthMode::StaticBearer, _) => {
            Credentials::StaticBearer { default: provider.bot_runtime_token.clone(), bots: provider.bot_tokens.clone() }
        }
        (AuthMode::ProviderAdmin, Some(token)) => Credentials::ProviderAdmin(token.clone()),
        (AuthMode::ProviderAdmin, None) => bail!("`provider.provider_admin_token` is not set."),
    };
    Ok(BcsClient::new(provider.bcs_url.as_deref(), &provider.id, credentials)?)
}

fn door_options(config: &Config) -> DoorOptions {
    DoorOptions {
        path: config.server.path.clone(),
        provider_id: config.provider.id.clone(),
        tokens: config.provider.bcs_to_provider_tokens.clone(),
        max_clock_skew: config.limits.max_clock_skew,
        body_bytes: config.limits.body_bytes,
        body_timeout: config.server.body_timeout,
        default_timeout: config.limits.default_timeout,
    }
}

/// Removes what is old, a little at a time.
async fn keep(store: Arc<dyn Store>, retention: Retention) {
    loop {
        tokio::time::sleep(EXPIRE_EVERY).await;
        loop {
            match store.expire(now_ms(), retention, EXPIRE_BUDGET).await {
                Ok(removed) if removed >= EXPIRE_BUDGET => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(%error, "old records could not be removed");
                    break;
                }
            }
        }
    }
}
