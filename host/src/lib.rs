//! Avernest: a self-hosted Bot Provider for Avernet's Bot Coordination Network, with WebAssembly components as bots.
//!
//! ARCHITECTURE.md says how the modules hang together. Arrows point one way:
//! `cli → host → {webhook, server} → run → {bot, store, network} → wire`.

pub mod bot;
pub mod clock;
pub mod store;
mod text;
pub mod wire;
