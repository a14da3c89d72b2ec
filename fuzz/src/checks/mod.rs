//! What must hold of input that strangers send, or that an operator writes: one function an entrance. Each takes any
//! bytes and panics where a promise is broken.
//!
//! The same functions are called by the fuzz targets and by `host/tests/hostile_input.rs`, which tries them on the seeds
//! and on damaged copies of these.

// Reached from the fuzz targets here, and from nowhere else when this is part of the host's test.
#![allow(unreachable_pub)]

mod body;
mod headers;
mod manifest;
mod settings;
mod sse;

pub use self::body::webhook_body;
pub use self::headers::webhook_headers;
pub use self::manifest::manifest;
pub use self::settings::settings;
pub use self::sse::sse_writer;

/// A sentence that goes into a log and into an answer: short, on one line, and there.
fn sentence(text: &str, max: usize) {
    assert!(!text.is_empty());
    assert!(text.len() <= max, "a sentence of {} bytes: {text:?}", text.len());
    assert!(!text.contains(char::is_control), "a control character in {text:?}");
}
