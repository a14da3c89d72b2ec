//! The list of settings: the only place that has their names, kinds, defaults and meanings.

use std::fmt::Write;

/// What a setting holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// A text or a list of texts.
    Texts,
    /// A whole number in this range.
    Number(u64, u64),
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    /// The default, as text; `None` for what has none.
    pub(super) default: Option<&'static str>,
    pub(super) meaning: &'static str,
}

const fn text(
    section: &'static str,
    key: &'static str,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Setting {
    Setting { section, key, kind: Kind::Text, default, meaning }
}

const fn texts(section: &'static str, key: &'static str, meaning: &'static str) -> Setting {
    Setting { section, key, kind: Kind::Texts, default: None, meaning }
}

const fn number(
    section: &'static str,
    key: &'static str,
    range: (u64, u64),
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { section, key, kind: Kind::Number(range.0, range.1), default: Some(default), meaning }
}

const YEAR_SECONDS: u64 = 366 * 24 * 3600;

/// Every setting, in the order it is shown.
pub(super) const SETTINGS: &[Setting] = &[
    text("provider", "id", None, "This provider's id, as BCS gave it at registration. Required."),
    text(
        "provider",
        "bcs_url",
        None,
        "Where BCS takes callbacks, like https://bcs.example.com. Without it callbacks wait in the outbox.",
    ),
    texts(
        "provider",
        "bcs_to_provider_token",
        "The token BCS comes with; a list while it is rotated. Required, here or as a file.",
    ),
    texts("provider", "bcs_to_provider_token_file", "The same out of a file (or several)."),
    text(
        "provider",
        "bot_runtime_token",
        None,
        "The token of callbacks, for bots without one of their own ([bots.REF] bot_runtime_token).",
    ),
    text("provider", "bot_runtime_token_file", None, "The same out of a file."),
    text(
        "provider",
        "provider_admin_token",
        None,
        "The provider's own token: callbacks use it when auth_mode is provider_admin.",
    ),
    text("provider", "provider_admin_token_file", None, "The same out of a file."),
    text(
        "provider",
        "auth_mode",
        Some("static_bearer"),
        "How callbacks prove who they are from: static_bearer or provider_admin.",
    ),
    text("server", "listen", Some("127.0.0.1:8787"), "Address and port; port 0 takes a free one and says which."),
    text("server", "path", Some("/webhook"), "The webhook's path."),
    number("server", "drain_seconds", (0, 86_400), "30", "How long runs may go on after SIGTERM or Ctrl-C."),
    number(
        "server",
        "max_connections",
        (1, 1_000_000),
        "10000",
        "Connections at once, as far as the system's limit on open files allows; more wait until one closes.",
    ),
    number(
        "server",
        "header_timeout_seconds",
        (1, 3_600),
        "15",
        "How long a connection may be without a request until it has brought a valid token.",
    ),
    // Longer than the 90 s after which BCS's own client drops a connection: it must never send on one that is being
    // closed here, for it would not send again.
    number(
        "server",
        "idle_timeout_seconds",
        (1, 86_400),
        "120",
        "How long a connection may be without a request. More than the 90 s that BCS keeps one itself.",
    ),
    number("server", "body_timeout_seconds", (1, 3_600), "60", "How long a client may take to send a request's body."),
    text("plugins", "dir", Some("plugins"), "The folder of bots: NAME.wasm is served as NAME."),
    number(
        "plugins",
        "poll_seconds",
        (1, 3_600),
        "2",
        "How often the folder is read, besides what the system reports.",
    ),
    text(
        "data",
        "dir",
        Some("data"),
        "Where sessions, runs, compiled bots and bots' logs are kept. One process at a time.",
    ),
    number("data", "cache_mb", (1, 65_536), "64", "Memory for the store's page cache."),
    number(
        "limits",
        "max_clock_skew_seconds",
        (1, YEAR_SECONDS),
        "300",
        "How far X-BCN-Timestamp may be from this machine's clock.",
    ),
    number("limits", "idempotency_days", (1, 3_650), "7", "How long a request's id is remembered."),
    number("limits", "max_body_mb", (1, 1_024), "32", "The largest request body."),
    number(
        "limits",
        "max_pending_per_session",
        (1, 1_000_000),
        "1000",
        "Runs that may wait in one session; past it 429.",
    ),
    number("limits", "max_pending", (1, 10_000_000), "100000", "Runs that may wait in all; past it 429."),
    number("limits", "max_running", (1, 1_000_000), "1024", "Runs at work at once."),
    number(
        "limits",
        "default_timeout_seconds",
        (1, YEAR_SECONDS),
        "10800",
        "The deadline of a chat.send without timeout_ms.",
    ),
    number("limits", "guest_threads", (0, 1_024), "0", "Threads that bots run on; 0 = one a core."),
    number("limits", "guest_memory_mb", (16, 16_777_216), "4096", "Memory of all running bots together."),
    number(
        "limits",
        "memory_mb",
        (1, 4_096),
        "256",
        "Memory of one running bot. This and the following: a bot's manifest can say otherwise.",
    ),
    number("limits", "table_elements", (1, 10_000_000), "100000", "Table elements of one running bot."),
    number("limits", "cpu_seconds", (1, 86_400), "300", "Processor time of one call."),
    number("limits", "inject_seconds", (1, 3_600), "5", "Time for a bot's inject function."),
    number("limits", "output_mb", (1, 1_024), "32", "Reply and progress of one call."),
    number("limits", "state_kb", (1, 1_048_576), "1024", "State of one session, keys and values."),
    number("limits", "state_keys", (1, 1_000_000), "1000", "Keys of one session's state."),
    number(
        "limits",
        "host_data_mb",
        (1, 1_024),
        "32",
        "Data that passes between a bot and the host in one call of an import.",
    ),
    number("limits", "log_kb", (1, 1_048_576), "256", "What one call may log; the rest is counted and dropped."),
    number("limits", "max_concurrent", (1, 1_000_000), "256", "Calls of one bot at once."),
    number(
        "runs",
        "detach_grace_seconds",
        (0, 86_400),
        "30",
        "How long a run goes on when nobody reads its stream any more.",
    ),
    number(
        "runs",
        "keep_ended_seconds",
        (0, 86_400),
        "60",
        "How long an ended run's events stay in memory for a re-attach.",
    ),
    number(
        "runs",
        "event_log_events",
        (16, 1_000_000),
        "8192",
        "Events kept a run. Past it deltas are not streamed any more; the final has the whole text.",
    ),
    number("runs", "event_log_mb", (1, 1_024), "32", "Bytes of events kept a run; past it as above."),
];

/// Finds a setting.
pub(super) fn find(section: &str, key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.section == section && s.key == key)
}

/// All settings as a TOML file with defaults and meanings, for `avernest serve --print-config`.
#[must_use]
pub fn print() -> String {
    let mut out = String::from(
        "# Settings of `avernest serve`, with their defaults. Each is also an environment variable:\n\
         # AVERNEST_SECTION__KEY, like AVERNEST_SERVER__LISTEN; the environment wins over the file.\n",
    );
    let mut section = "";
    for s in SETTINGS {
        if s.section != section {
            section = s.section;
            let _ = write!(out, "\n[{section}]\n");
        }
        let _ = writeln!(out, "# {}", s.meaning);
        match (s.kind, s.default) {
            (Kind::Number(min, max), Some(d)) => {
                let _ = writeln!(out, "# {min} to {max}.\n{} = {d}", s.key);
            }
            (_, Some(d)) => {
                let _ = writeln!(out, "{} = \"{d}\"", s.key);
            }
            (_, None) => {
                let _ = writeln!(out, "# {} = \"\"", s.key);
            }
        }
    }
    out.push_str(
        "\n# One table a bot that has a token of its own:\n# [bots.\"REF\"]\n# bot_runtime_token = \"\"\n# bot_runtime_token_file = \"\"\n",
    );
    out
}
