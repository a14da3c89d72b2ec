//! The clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix milliseconds.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
