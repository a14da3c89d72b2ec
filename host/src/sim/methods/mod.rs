//! One file a method of the protocol: what its request has, and how its answer is checked.

mod abort;
mod history;
mod inject;
mod ping;
mod resolve;
mod send;

pub use self::abort::{AbortAnswer, AbortMethod};
pub use self::history::{HistoryAnswer, HistoryMethod};
pub use self::inject::InjectMethod;
pub use self::ping::PingMethod;
pub use self::resolve::ResolveMethod;
pub use self::send::{SendMethod, SendResult};

use serde_json::{Value, json};

/// The server's `timeout_ms` of a direct chat: two hours.
const SEND_TIMEOUT_MS: u64 = 7_200_000;
/// The server's `timeout_ms` of inject, history and resolve.
const OTHER_TIMEOUT_MS: u64 = 3_600_000;
/// The server's `timeout_ms` of abort.
const ABORT_TIMEOUT_MS: u64 = 60_000;

/// A message as the server sends it.
fn user_message(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": super::unix_ms()})
}
