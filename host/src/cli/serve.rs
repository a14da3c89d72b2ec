//! `avernest serve`: opens the store, loads the bots, listens, and stops in good order.

use std::path::Path;

use anyhow::Context;

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
        stop_signal().await?;
        tracing::info!("stopping: no new requests, runs may finish");
        host.stop().await
    })
}

async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be watched for")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("Ctrl-C cannot be watched for")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
