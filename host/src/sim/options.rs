//! What a simulated server is told at its start.

use std::collections::HashMap;
use std::time::Duration;

use crate::wire::Secret;

/// How callbacks prove whose they are (`auth.mode` of a Provider's registration).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// A `bot_runtime_token`.
    StaticBearer,
    /// The `provider_admin_token`, and `X-BCN-Provider-Bot-Ref`.
    ProviderAdmin,
}

/// The settings of a [`Bcs`](super::Bcs). The defaults have fresh tokens and the real server's bounds, or the bounds
/// of its strictest build where builds differ.
#[derive(Debug, Clone)]
pub struct BcsOptions {
    /// The Provider's id.
    pub provider_id: String,
    /// `bcs_to_provider_token`, sent with every request.
    pub b2p_token: Secret,
    /// How callbacks are authenticated.
    pub auth_mode: AuthMode,
    /// The runtime token of every bot that has none of its own in `bot_runtime_tokens`.
    pub bot_runtime_token: Option<Secret>,
    /// Runtime tokens by `provider_bot_ref`.
    pub bot_runtime_tokens: HashMap<String, Secret>,
    /// `provider_admin_token`.
    pub provider_admin_token: Secret,
    /// How long any one wait of a test may take.
    pub patience: Duration,
    /// How long a JSON answer may take, headers and body.
    pub json_timeout: Duration,
    /// How long the headers of an event stream may take. 125 s on the real server, 30 s with its delivery queue.
    pub headers_timeout: Duration,
    /// How long an open stream may be silent. 15 min on the newest server, 120 s on older ones.
    pub idle_timeout: Duration,
    /// How long after its deadline a run's own end is still taken. The real server ends it at the deadline itself,
    /// so that nobody would see whether the Provider did.
    pub deadline_grace: Duration,
    /// How long a stream may stay open after its terminal event.
    pub linger: Duration,
    /// How long a callback that overtakes its acknowledgement is held before it counts as sent too early: the two
    /// come over different sockets.
    pub ack_grace: Duration,
    /// How far `X-BCN-Timestamp` of a callback may be from now.
    pub max_skew: Duration,
    /// Over how many HTTP/2 connections the sends are spread: a server allows some 200 streams on each.
    pub sse_connections: usize,
}

impl Default for BcsOptions {
    fn default() -> Self {
        let token = |prefix: &str| Secret::new(format!("{prefix}{}", uuid::Uuid::new_v4().simple()));
        Self {
            provider_id: "prov-sim".to_owned(),
            b2p_token: token("bcs_b2p_"),
            auth_mode: AuthMode::StaticBearer,
            bot_runtime_token: Some(token("bcs_rt_")),
            bot_runtime_tokens: HashMap::new(),
            provider_admin_token: token("bcs_pa_"),
            patience: Duration::from_secs(30),
            json_timeout: Duration::from_secs(65),
            headers_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            deadline_grace: Duration::from_secs(2),
            linger: Duration::from_secs(2),
            ack_grace: Duration::from_millis(100),
            max_skew: Duration::from_secs(60),
            sse_connections: 4,
        }
    }
}

impl BcsOptions {
    /// The runtime token that callbacks for this bot must have, if any is known.
    pub(super) fn runtime_token(&self, bot: &str) -> Option<&Secret> {
        self.bot_runtime_tokens.get(bot).or(self.bot_runtime_token.as_ref())
    }

    /// Whether this is the runtime token of any bot.
    pub(super) fn is_runtime_token(&self, token: &[u8]) -> bool {
        self.bot_runtime_tokens.values().chain(self.bot_runtime_token.as_ref()).any(|known| known.matches(token))
    }
}
