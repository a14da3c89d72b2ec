//! What the host keeps for one instance.

use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::call::{Call, Export, Limits};
use super::imports::{Output, SessionState};
use super::limits::{LimitHit, Limiter, MemoryBudget};
use super::log::{BotLog, LogMeter, LogSource};
use super::wasi::{self, Capture};

/// Handles of WASI that a guest can hold at once.
const HANDLES: usize = 10_000;

/// The data of a store.
pub(super) struct GuestState {
    pub(super) limits: Limits,
    pub(super) limiter: Limiter,
    pub(super) output: Output,
    pub(super) session: SessionState,
    pub(super) log: Arc<Mutex<LogMeter>>,
    stdout: Capture,
    stderr: Capture,
    hit: Option<LimitHit>,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl GuestState {
    pub(super) fn new(call: &Call, limits: &Limits, log: Arc<dyn BotLog>, budget: Arc<MemoryBudget>) -> Self {
        let log = Arc::new(Mutex::new(LogMeter::new(log, call.request.id.clone(), limits.log_bytes)));
        let stdout = Capture::new(LogSource::Stdout, log.clone());
        let stderr = Capture::new(LogSource::Stderr, log.clone());
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        // Nobody watches an `inject`.
        let sink = (call.export == Export::Send).then(|| call.sink.clone());
        Self {
            limits: limits.clone(),
            limiter: Limiter::new(limits, budget),
            output: Output::new(sink),
            session: SessionState::new(call.conversation.clone()),
            log,
            wasi: wasi::context(stdout.clone(), stderr.clone()),
            stdout,
            stderr,
            hit: None,
            table,
        }
    }

    /// Remembers the limit as the call's end and gives the trap to end it with.
    pub(super) fn over(&mut self, hit: LimitHit) -> wasmtime::Error {
        self.hit = Some(hit);
        wasmtime::Error::msg("a limit was hit")
    }

    /// The limit that ended the call, or that it could not live with.
    pub(super) fn take_hit(&mut self) -> Option<LimitHit> {
        self.hit.take().or_else(|| self.limiter.take_refusal())
    }

    /// Fails if what a guest hands over or takes at once is too much.
    pub(super) fn check_host_data(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let limit = self.limits.host_data_bytes;
        if bytes <= limit {
            return Ok(());
        }
        let what = format!("The bot exchanged {bytes} bytes with the host in one call");
        Err(self.over(LimitHit::new(&what, limit, "bytes", "limits.host_data_mb")))
    }

    /// Ends the log: half a line, and what was dropped.
    pub(super) fn finish_log(&self) {
        self.stdout.finish();
        self.stderr.finish();
        self.log.lock().unwrap_or_else(PoisonError::into_inner).finish();
    }

    pub(super) fn stderr_tail(&self) -> String {
        self.stderr.tail()
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
