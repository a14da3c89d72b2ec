//! What travels between the coordination server (BCS), Avernest and the bots.
//!
//! Pure data: no I/O and no clock. Every other module may use this one; it uses none of them.

pub mod callback;
mod canonical;
pub mod envelope;
pub mod error;
pub mod event;
pub mod fingerprint;
pub mod fit;
pub mod headers;
pub mod ids;
mod json;
pub mod message;
pub mod outcome;
pub mod secret;
pub mod sse;

pub use error::{ApiError, ErrorCode};
pub use event::{Event, Frame};
pub use fingerprint::Fingerprint;
pub use ids::{BotRef, SessionKey};
pub use message::{Author, Message, Role};
pub use outcome::{Channel, Outcome, RunError, RunState};
pub use secret::Secret;
