//! Bots: WebAssembly components in a folder, each call a fresh instance in a sandbox.
//!
//! This module does not know HTTP, and it does not know how a session is stored: what a bot needs of its
//! surroundings comes through [`Conversation`] and [`EventSink`]. [`BotHost`] puts its two halves together: the folder
//! ([`registry`], [`manifest`]) and what runs a component ([`Runtime`]).

mod bindings;
mod cache;
pub mod call;
mod compile;
mod component;
mod engine;
mod executor;
mod guest;
mod host;
mod imports;
mod inspect;
mod invoke;
mod limits;
mod load_error;
pub mod loader;
mod log;
pub mod logs;
pub mod manifest;
pub mod registry;
mod runtime;
mod trial;
mod wasi;
mod watcher;
mod world;

#[cfg(test)]
mod tests;

pub use cache::{ArtifactDigest, DigestLedger, LedgerFuture, MemoryLedger};
pub use call::{
    Call, CallEnd, CallError, CallReport, CancelCause, CancelToken, Conversation, ConversationError,
    ConversationFuture, EventSink, Export, Limits, PastMessage, Reply, RequestInfo,
};
pub use compile::{COMPILE_SUBCOMMAND, Compiler, compile_main};
pub use component::Prepared;
pub use executor::Guests;
pub use host::{BotHost, BotHostOptions, ServedBot};
pub use limits::MemoryBudget;
pub use load_error::LoadError;
pub use loader::{LoadFailure, LoadFuture, Loader};
pub use log::{BotLog, LogLevel, LogLine, LogSource};
pub use logs::{BotLogHandle, BotLogs};
pub use manifest::Manifest;
pub use registry::{BotStatus, Lookup, Registry, RegistryOptions, Served};
pub use runtime::{Runtime, RuntimeOptions};
