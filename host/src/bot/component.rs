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
    pub(super) pre: BotPre<GuestState>,
}

/// What components are linked with, for each of the [`Engines`].
pub(super) struct Linkers {
    pooled: Option<Linker<GuestState>>,
    on_demand: Linker<GuestState>,
}

impl Linkers {
    /// # Errors
    /// wasmtime's.
    pub(super) fn new(engines: &Engines) -> wasmtime::Result<Self> {
        Ok(Self { pooled: engines.pooled.as_ref().map(linker).transpose()?, on_demand: linker(&engines.on_demand)? })
    }

    /// Links a component in the engine that it was loaded in; that its names fit has been checked before.
    ///
    /// # Errors
    /// What of its types does not fit.
    pub(super) fn link(&self, component: &Component) -> Result<BotPre<GuestState>, LoadError> {
        let pooled = self.pooled.as_ref().filter(|linker| Engine::same(linker.engine(), component.engine()));
        let pre = pooled.unwrap_or(&self.on_demand).instantiate_pre(component);
        pre.and_then(BotPre::new).map_err(|error| world::type_mismatch(&error))
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
