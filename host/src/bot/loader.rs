//! What the folder's half of this module asks of the wasm half.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What [`Loader::load`] gives. It runs on the async runtime and must not block it.
pub type LoadFuture<B> = Pin<Box<dyn Future<Output = Result<Arc<B>, LoadFailure>> + Send + 'static>>;

/// Turns a file's bytes into something that can be called.
pub trait Loader: Send + Sync + 'static {
    /// What can be called.
    type Bot: Send + Sync + 'static;

    /// Loads the whole content of a `.wasm` file. `name` is the bot's reference, for messages.
    fn load(&self, name: &str, wasm: Vec<u8>) -> LoadFuture<Self::Bot>;
}

/// Why a file could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadFailure {
    /// The file ends too early, as one does that is still being written.
    pub incomplete: bool,
    /// A sentence: what is wrong and what to do.
    pub message: String,
}
