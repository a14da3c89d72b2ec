//! Avernest: a self-hosted Bot Provider for Avernet's Bot Coordination Network, with WebAssembly components as bots.
//!
//! ARCHITECTURE.md says how the modules hang together. Arrows point one way:
//! `cli → host → {webhook, server} → run → {bot, store, network} → wire`.

pub mod bot;
pub mod cli;
pub mod clock;
pub mod config;
pub mod host;
pub mod network;
pub mod run;
pub mod server;
pub mod sim;
pub mod store;
pub mod telemetry;
mod text;
pub mod webhook;
pub mod wire;
