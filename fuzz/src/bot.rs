//! Of the bots: manifests, limits, and the look at a component before it is compiled.

#[allow(dead_code)]
#[path = "../../host/src/bot/call.rs"]
mod call;
#[path = "../../host/src/bot/inspect.rs"]
mod inspect;
#[path = "../../host/src/bot/load_error.rs"]
mod load_error;
#[path = "../../host/src/bot/manifest/mod.rs"]
pub mod manifest;
#[allow(dead_code)]
#[path = "../../host/src/bot/world.rs"]
mod world;

pub use self::call::Limits;
pub use self::load_error::LoadError;

/// Everything that the host's loader does with a file's bytes before they go to the compiler: what `Runtime::prepare`
/// (`host/src/bot/runtime.rs`) calls, in its order.
///
/// # Errors
/// Why it cannot serve.
pub fn before_compile(wasm: &[u8]) -> Result<(), LoadError> {
    let shape = inspect::inspect(wasm)?;
    world::check(&shape)
}
