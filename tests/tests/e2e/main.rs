//! The built program over real sockets, one file a subject. One test binary, because each links wasmtime.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod callbacks;
mod crash;
mod door;
mod idle;
mod life;
mod load;
mod reload;
mod sessions;
mod streaming;
mod torture;
