//! What the end-to-end tests share: the built program in a folder of its own, and the simulated network beside it.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

pub mod bench;
pub mod process;
pub mod raw;
pub mod traffic;
pub mod wait;
pub mod world;

pub use process::Provider;
pub use wait::eventually;
pub use world::{World, WorldOptions};
