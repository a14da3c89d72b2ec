//! `avernest serve`: opens the store, loads the bots, listens, and stops in good order.

use std::path::Path;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config;
use crate::host::Host;
use crate::telemetry;

/// Serves until SIGTERM or Ctrl-C.
pub(super) fn serve(file: Option<&Path>) -> anyhow::Result<()> {
    let _log = telemetry::start();
    let config = config::load(file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("avernest")
        .build()
        .context("The threads cannot be started")?;
    runtime.block_on(async {
        let host = Host::start(config).await?;
        // A ready line of a fixed form, for people and for programs that started this one on port 0.
        eprintln!("avernest ready on http://{} (webhook {})", host.address(), host.path());
        let mut signals = Signals::watch()?;
        signals.next().await;
        tracing::info!(
            drain_seconds = host.drain_time().as_secs(),
            "stopping: no new requests, runs may finish; once more Ctrl-C or SIGTERM ends them now"
        );
        host.stop(async move { signals.next().await }).await
    })
}

/// What an operator says to make this program stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn watch() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("SIGTERM cannot be watched for")?,
            interrupt: signal(SignalKind::interrupt()).context("Ctrl-C cannot be watched for")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
