//! What the fuzz targets run, and the slice of the host that they run it on.
//!
//! The host's own files are compiled into this crate, by path: those that read what strangers send or an operator
//! writes. They need no wasmtime, so an instrumented build takes a minute and not half an hour. A file that is moved,
//! or that comes to need another part of the host, shows as a build error here; this is the place to follow it.

// The checks say `avernest::…`: here that is this crate, in `host/tests/hostile_input.rs` the host itself.
extern crate self as avernest;

pub mod bot;
pub mod checks;
pub mod component;
mod store;

#[path = "../../host/src/wire/mod.rs"]
pub mod wire;

#[allow(dead_code)]
#[path = "../../host/src/config/mod.rs"]
pub mod config;

#[path = "../../host/src/text.rs"]
mod text;
