//! The settings: a file, and the environment over it.

use std::path::Path;

use avernest::config::{Config, load_from};
use http::HeaderValue;

/// Stands where tokens stand, and must not come out anywhere.
const TOKEN: &str = "bcs_b2p_planted_7c1e";
/// Of the file, before what is tried.
const LEAST: &str = "[provider]\nid = \"p\"\nbcs_to_provider_token = \"bcs_b2p_planted_7c1e\"\n";
/// Parts the input's file from its environment, which is `NAME=VALUE` a line.
const ENVIRONMENT: &str = "\n--- environment ---\n";

/// Settings are refused with a short sentence, or every one is in its range. No token is ever shown.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A token's file would be read, whatever it is; TOML can spell the key with escapes.
    let lower = text.to_ascii_lowercase();
    if lower.contains("_file") || lower.contains("\\u") || lower.contains("\\x") || text.contains(TOKEN) {
        return;
    }
    let (file, environment) = text.split_once(ENVIRONMENT).unwrap_or((text, ""));
    tried(file, environment);
    tried(&format!("{LEAST}{file}"), environment);
}

fn tried(file: &str, environment: &str) {
    let pairs = environment.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let shown = match load_from(Some((Path::new("avernest.toml"), file)), pairs) {
        Ok(config) => {
            usable(&config);
            format!("{config:?}")
        }
        Err(error) => {
            super::sentence(&error.0, 2048);
            error.0
        }
    };
    assert!(!shown.contains(TOKEN), "{shown}");
}

fn usable(config: &Config) {
    const MIB: usize = 1024 * 1024;
    let provider = &config.provider;
    assert!(!provider.bcs_to_provider_tokens.is_empty());
    let of_bots = provider.bot_tokens.values();
    let one = provider.bot_runtime_token.iter().chain(&provider.provider_admin_token);
    for token in provider.bcs_to_provider_tokens.iter().chain(of_bots).chain(one) {
        assert!(!token.is_empty() && token.reveal().bytes().all(|b| b.is_ascii_graphic()));
    }
    // It goes into a header of every callback.
    assert!(!provider.id.is_empty() && HeaderValue::from_str(&provider.id).is_ok(), "{:?}", provider.id);
    if let Some(url) = &provider.bcs_url {
        assert!(url.to_ascii_lowercase().trim_start().starts_with("http"), "{url:?}");
    }

    let server = &config.server;
    assert!(server.path.starts_with('/') && http::Uri::try_from(&server.path).is_ok(), "{:?}", server.path);
    assert!((1..=1_000_000).contains(&server.max_connections));
    for (time, least, most) in [
        (server.header_timeout, 1, 3_600),
        (server.body_timeout, 1, 3_600),
        (server.drain, 0, 86_400),
        (config.plugins.poll, 1, 3_600),
        (config.runs.detach_grace, 0, 86_400),
        (config.runs.keep_ended, 0, 86_400),
        (config.limits.bot.cpu_time, 1, 86_400),
        (config.limits.bot.inject_time, 1, 3_600),
        (config.limits.idempotency, 86_400, 3_650 * 86_400),
    ] {
        assert!((least..=most).contains(&time.as_secs()), "{config:?}");
    }
    let limits = &config.limits;
    for (size, least, most) in [
        (limits.body_bytes, MIB, 1_024 * MIB),
        (limits.pending_session, 1, 1_000_000),
        (limits.pending_total, 1, 10_000_000),
        (limits.running, 1, 1_000_000),
        (limits.guest_threads, 0, 1_024),
        (limits.guest_memory_bytes, 16 * MIB, 16_777_216 * MIB),
        (limits.bot.memory_bytes, MIB, 4_096 * MIB),
        (limits.bot.output_bytes, MIB, 1_024 * MIB),
        (limits.bot.state_bytes, 1_024, 1_024 * MIB),
        (limits.bot.log_bytes, 1_024, 1_024 * MIB),
        (limits.bot.max_concurrent, 1, 1_000_000),
        (config.runs.log_events, 16, 1_000_000),
        (config.runs.log_bytes, MIB, 1_024 * MIB),
    ] {
        assert!((least..=most).contains(&size), "{config:?}");
    }
}
