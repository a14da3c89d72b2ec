//! A component that is loaded and ready to serve.

use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::{Bot, BotPre};
use super::engine::Engines;
use super::guest::GuestState;
use super::load_error::LoadError;
use super::world;

/// A component, compiled and linked. Calls of it share nothing but its code.
pub struct Prepared {
    /// SHA-256 of the .wasm, in hexadecimal: the bot's version.
    pub hash: String,
    /// Bytes of the .wasm.
    pub size: usize,
    /// How long compiling took; `None` if it came from the cache.
    pub compile_time: Option<Duration>,
    /// How long it took in all until it was ready.
    pub load_time: Duration,
    pub(super) code: Code,
}

/// A component in the engine that it runs in.
#[derive(Clone)]
pub(super) struct Code {
    pub(super) engine: Engine,
    pub(super) pre: BotPre<GuestState>,
}

/// The engines, each with what its components are linked with.
pub(super) struct Linkers {
    engines: Engines,
    pooled: Option<Linker<GuestState>>,
    on_demand: Linker<GuestState>,
}

impl Linkers {
    /// # Errors
    /// wasmtime's.
    pub(super) fn new(engines: Engines) -> wasmtime::Result<Self> {
        let pooled = engines.pooled.as_ref().map(linker).transpose()?;
        Ok(Self { pooled, on_demand: linker(&engines.on_demand)?, engines })
    }

    /// The engine that a component is loaded for when it has a place there, and otherwise.
    pub(super) fn engines(&self) -> &Engines {
        &self.engines
    }

    /// Links a component; that its names fit has been checked before.
    ///
    /// # Errors
    /// What of its types does not fit.
    pub(super) fn link(&self, component: &Component) -> Result<Code, LoadError> {
        let linker = match (&self.pooled, &self.engines.pooled) {
            (Some(linker), Some(engine)) if Engine::same(engine, component.engine()) => linker,
            _ => &self.on_demand,
        };
        let pre = linker.instantiate_pre(component).map_err(|error| world::type_mismatch(&error))?;
        let pre = BotPre::new(pre).map_err(|error| world::type_mismatch(&error))?;
        Ok(Code { engine: component.engine().clone(), pre })
    }
}

/// What a component can be linked with: the contract, and all of WASI 0.2.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    Bot::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("hash", &self.hash).field("size", &self.size).finish_non_exhaustive()
    }
}
