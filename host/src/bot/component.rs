//! A component that is loaded and ready to serve.

use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::{Bot, BotPre};
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

/// What a component can be linked with: the contract, and all of WASI 0.2.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    Bot::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Links a component; that its names fit has been checked before.
pub(super) fn link(linker: &Linker<GuestState>, component: &Component) -> Result<BotPre<GuestState>, LoadError> {
    let pre = linker.instantiate_pre(component).map_err(|error| world::type_mismatch(&error))?;
    BotPre::new(pre).map_err(|error| world::type_mismatch(&error))
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("hash", &self.hash).field("size", &self.size).finish_non_exhaustive()
    }
}
