//! Settings: a TOML file, with every key also as an environment variable `AVERNEST_SECTION__KEY`.
//!
//! This is the one place that reads settings. [`table`] lists them with default and meaning; what is not in it is
//! refused, with the line.

mod build;
mod load;
mod table;
mod tokens;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use self::load::{ConfigError, load, load_from};
pub use self::table::print as print_settings;
use crate::bot::Limits;
use crate::wire::{BotRef, Secret};

/// How callbacks prove who they are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// A `bot_runtime_token`, one for all bots or one a bot.
    StaticBearer,
    /// The `provider_admin_token` and the bot's reference.
    ProviderAdmin,
}

/// Everything that is settled before the start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who this provider is, and its tokens.
    pub provider: ProviderConfig,
    /// The door.
    pub server: ServerConfig,
    /// Where bots are.
    pub plugins: PluginsConfig,
    /// Where data is.
    pub data: DataConfig,
    /// What is admitted and kept, and what a bot may use.
    pub limits: LimitsConfig,
    /// How runs are treated.
    pub runs: RunsConfig,
}

/// `[provider]` and `[bots.REF]`.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The provider's id, as the server knows it.
    pub id: String,
    /// Where the server is; without it no callback can be sent.
    pub bcs_url: Option<String>,
    /// The tokens that the server may come with; more than one while they are rotated.
    pub bcs_to_provider_tokens: Vec<Secret>,
    /// The token of callbacks, for bots that have none of their own.
    pub bot_runtime_token: Option<Secret>,
    /// The tokens of single bots.
    pub bot_tokens: BTreeMap<BotRef, Secret>,
    /// The provider's own token, for `provider_admin`.
    pub provider_admin_token: Option<Secret>,
    /// How callbacks prove who they are from.
    pub auth_mode: AuthMode,
}

/// `[server]`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The webhook's path.
    pub path: String,
    /// How long runs may go on after a request to stop.
    pub drain: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// How long a client may take for its headers.
    pub header_timeout: Duration,
    /// How long a connection whose client has shown a valid token may be without a request.
    pub idle_timeout: Duration,
    /// How long a client may take for its body.
    pub body_timeout: Duration,
}

/// `[plugins]`.
#[derive(Debug, Clone)]
pub struct PluginsConfig {
    /// The folder.
    pub dir: PathBuf,
    /// How often the folder is read, whatever the operating system reports.
    pub poll: Duration,
}

/// `[data]`.
#[derive(Debug, Clone)]
pub struct DataConfig {
    /// The directory.
    pub dir: PathBuf,
    /// The store's page cache, in bytes.
    pub cache_bytes: u64,
}

/// `[limits]`.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// How far the server's clock may be off.
    pub max_clock_skew: Duration,
    /// How long ids are remembered.
    pub idempotency: Duration,
    /// The largest body, in bytes.
    pub body_bytes: usize,
    /// PENDING runs a session.
    pub pending_session: usize,
    /// PENDING runs in all.
    pub pending_total: usize,
    /// RUNNING runs in all.
    pub running: usize,
    /// The deadline of a run whose request names none.
    pub default_timeout: Duration,
    /// Threads for bots; 0 = one a core.
    pub guest_threads: usize,
    /// Linear memory of all bots together, in bytes.
    pub guest_memory_bytes: usize,
    /// What each bot may use, if its manifest says nothing else.
    pub bot: Limits,
}

/// `[runs]`.
#[derive(Debug, Clone)]
pub struct RunsConfig {
    /// How long a run whose stream nobody reads goes on.
    pub detach_grace: Duration,
    /// How long an ended run's events are kept in memory for a re-attach.
    pub keep_ended: Duration,
    /// Events kept a run.
    pub log_events: usize,
    /// Bytes of events kept a run.
    pub log_bytes: usize,
}
