//! The typed settings, out of checked values and the table's defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::load::{ConfigError, Given};
use super::table::find;
use super::tokens::TokenSource;
use super::{AuthMode, Config, DataConfig, LimitsConfig, PluginsConfig, ProviderConfig, RunsConfig, ServerConfig};
use crate::bot::Limits;
use crate::text::excerpt;
use crate::wire::BotRef;

const MIB: usize = 1024 * 1024;

/// The typed settings out of what was given and the table's defaults.
struct Values<'a>(&'a Given);

impl Values<'_> {
    fn text(&self, section: &str, key: &str) -> Option<String> {
        let given = self.0.get(&(section.to_owned(), key.to_owned())).and_then(|v| v.texts.first().cloned());
        given.or_else(|| find(section, key).and_then(|s| s.default).map(str::to_owned)).filter(|t| !t.is_empty())
    }

    fn number(&self, section: &str, key: &str) -> u64 {
        // Checked against the range before, and the table's own defaults are tested.
        self.text(section, key).and_then(|t| t.replace('_', "").parse().ok()).unwrap_or_default()
    }

    fn size(&self, section: &str, key: &str) -> usize {
        usize::try_from(self.number(section, key)).unwrap_or(usize::MAX)
    }

    fn seconds(&self, section: &str, key: &str) -> Duration {
        Duration::from_secs(self.number(section, key))
    }

    fn origin(&self, section: &str, key: &str) -> String {
        self.0.get(&(section.to_owned(), key.to_owned())).map_or_else(|| "the default".into(), |v| v.origin.clone())
    }
}

/// Makes the settings out of checked values.
pub(super) fn build(given: &Given) -> Result<Config, ConfigError> {
    let v = Values(given);
    let listen = v.text("server", "listen").unwrap_or_default();
    let listen = listen.parse().map_err(|_| {
        ConfigError(format!(
            "{}: `server.listen` must be an address and a port, like 127.0.0.1:8787 or [::]:8787.",
            v.origin("server", "listen")
        ))
    })?;
    let path = v.text("server", "path").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !path.starts_with('/') || path == "/healthz" || path == "/readyz" || !path.chars().all(plain) {
        return Err(ConfigError(format!(
            "{}: `server.path` must begin with / and hold only letters, digits and - _ . ~ /; /healthz and /readyz are taken.",
            v.origin("server", "path")
        )));
    }
    Ok(Config {
        provider: provider(&v, given)?,
        server: ServerConfig {
            listen,
            path,
            drain: v.seconds("server", "drain_seconds"),
            max_connections: v.size("server", "max_connections"),
            header_timeout: v.seconds("server", "header_timeout_seconds"),
            idle_timeout: v.seconds("server", "idle_timeout_seconds"),
            body_timeout: v.seconds("server", "body_timeout_seconds"),
        },
        plugins: PluginsConfig {
            dir: PathBuf::from(v.text("plugins", "dir").unwrap_or_default()),
            poll: v.seconds("plugins", "poll_seconds"),
        },
        data: DataConfig {
            dir: PathBuf::from(v.text("data", "dir").unwrap_or_default()),
            cache_bytes: v.number("data", "cache_mb") * MIB as u64,
        },
        limits: limits(&v),
        runs: RunsConfig {
            detach_grace: v.seconds("runs", "detach_grace_seconds"),
            keep_ended: v.seconds("runs", "keep_ended_seconds"),
            log_events: v.size("runs", "event_log_events"),
            log_bytes: v.size("runs", "event_log_mb") * MIB,
        },
    })
}

fn limits(v: &Values<'_>) -> LimitsConfig {
    let n = |key| v.size("limits", key);
    LimitsConfig {
        max_clock_skew: v.seconds("limits", "max_clock_skew_seconds"),
        idempotency: Duration::from_secs(v.number("limits", "idempotency_days") * 86_400),
        body_bytes: n("max_body_mb") * MIB,
        pending_session: n("max_pending_per_session"),
        pending_total: n("max_pending"),
        running: n("max_running"),
        default_timeout: v.seconds("limits", "default_timeout_seconds"),
        guest_threads: n("guest_threads"),
        guest_memory_bytes: n("guest_memory_mb").saturating_mul(MIB),
        bot: Limits {
            memory_bytes: n("memory_mb") * MIB,
            table_elements: n("table_elements"),
            cpu_time: v.seconds("limits", "cpu_seconds"),
            inject_time: v.seconds("limits", "inject_seconds"),
            output_bytes: n("output_mb") * MIB,
            state_bytes: n("state_kb") * 1024,
            state_keys: n("state_keys"),
            host_data_bytes: n("host_data_mb") * MIB,
            log_bytes: n("log_kb") * 1024,
            max_concurrent: n("max_concurrent"),
        },
    }
}

fn provider(v: &Values<'_>, given: &Given) -> Result<ProviderConfig, ConfigError> {
    let id = v.text("provider", "id").ok_or_else(|| {
        ConfigError(
            "No provider id is set. Put the id that BCS gave this provider into the settings file as `id` under \
             [provider], or into the environment as AVERNEST_PROVIDER__ID."
                .into(),
        )
    })?;
    if id.chars().any(char::is_control) {
        return Err(ConfigError(format!(
            "{}: `provider.id` holds a control character, like a line break: it stands in a header of every callback.",
            v.origin("provider", "id")
        )));
    }
    let bcs_url = v.text("provider", "bcs_url");
    if let Some(url) = &bcs_url {
        let good = reqwest::Url::parse(url).is_ok_and(|u| {
            matches!(u.scheme(), "http" | "https") && u.has_host() && u.username().is_empty() && u.password().is_none()
        });
        if !good {
            return Err(ConfigError(format!(
                "{}: `provider.bcs_url` must be a web address like https://bcs.example.com, without user or password.",
                v.origin("provider", "bcs_url")
            )));
        }
    }
    let source = TokenSource::new(given);
    let tokens = source.many("provider", "bcs_to_provider_token")?;
    if tokens.is_empty() {
        return Err(ConfigError(
            "No token of BCS is set. Put the bcs_to_provider_token that the registration gave into the settings file \
             as `bcs_to_provider_token` (or the path of a file that holds it as `bcs_to_provider_token_file`) under \
             [provider], or into the environment as AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKEN."
                .into(),
        ));
    }
    let auth_mode = match v.text("provider", "auth_mode").as_deref() {
        Some("static_bearer") => AuthMode::StaticBearer,
        Some("provider_admin") => AuthMode::ProviderAdmin,
        _ => {
            return Err(ConfigError(format!(
                "{}: `provider.auth_mode` must be static_bearer or provider_admin.",
                v.origin("provider", "auth_mode")
            )));
        }
    };
    let provider_admin_token = source.one("provider", "provider_admin_token")?;
    if auth_mode == AuthMode::ProviderAdmin && provider_admin_token.is_none() {
        return Err(ConfigError(
            "`provider.auth_mode` is provider_admin, but no `provider_admin_token` (or `provider_admin_token_file`) is set."
                .into(),
        ));
    }
    let bots: BTreeSet<&str> = given.keys().filter_map(|(section, _)| section.strip_prefix("bots.")).collect();
    let mut bot_tokens = BTreeMap::new();
    for bot in bots {
        let bot_ref = BotRef::parse(bot).map_err(|e| ConfigError(format!("[bots.{}]: {e}.", excerpt(bot))))?;
        if let Some(token) = source.one(&format!("bots.{bot}"), "bot_runtime_token")? {
            bot_tokens.insert(bot_ref, token);
        }
    }
    Ok(ProviderConfig {
        id,
        bcs_url,
        bcs_to_provider_tokens: tokens,
        bot_runtime_token: source.one("provider", "bot_runtime_token")?,
        bot_tokens,
        provider_admin_token,
        auth_mode,
    })
}
