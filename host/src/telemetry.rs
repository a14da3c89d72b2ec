//! The server's own log: lines on stderr, never blocking who writes them.

use std::io::IsTerminal;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

/// Starts the log. `AVERNEST_LOG` filters it (`info` by default, like `avernest=debug`), `AVERNEST_LOG_FORMAT=json`
/// makes it JSON Lines. The log is written out when the guard is dropped.
pub fn start() -> WorkerGuard {
    // Lossy: a stderr that nobody reads must not stop the host.
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    let filter = EnvFilter::try_from_env("AVERNEST_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let json = std::env::var("AVERNEST_LOG_FORMAT").is_ok_and(|f| f == "json");
    let started = if json {
        builder.json().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
    // It fails only where a log runs already, as in a test.
    drop(started);
    guard
}
