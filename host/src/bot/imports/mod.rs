//! What the host does for a bot: one file an interface of the WIT contract.

mod convert;
mod logging;
mod progress;
mod session;

pub(super) use self::convert::{export_failure, export_message, export_request};
pub(super) use self::progress::Output;
pub(super) use self::session::SessionState;

/// What a text is cut to that goes into an error.
pub(super) const ERROR_TEXT: usize = 16 * 1024;

/// At most `max` bytes of a text, whole characters, with a sign that something is missing.
pub(super) fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.push('…');
    }
    text
}
