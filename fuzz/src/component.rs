//! A file from the plugins folder, up to the compiler.

use crate::bot::{LoadError, before_compile};

/// The bytes are a bot, or there is one sentence of bounded length about what is wrong. A file cut off in the middle is
/// never told to be anything but a file that could still grow, unless what is there is wrong already.
pub fn component(data: &[u8]) {
    let whole = check(data);
    // The watcher tries a file that is still being written: each beginning must be as harmless as the whole.
    let half = check(data.get(..data.len() / 2).unwrap_or_default());
    if whole.is_ok() {
        assert!(!matches!(half, Err(LoadError::NotWasm(_))), "the first half of a bot is {half:?}");
    }
}

fn check(data: &[u8]) -> Result<(), LoadError> {
    let result = before_compile(data);
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(text.len() <= 4096, "an error of {} bytes", text.len());
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        assert!(text.ends_with('.'), "{text:?}");
    }
    result
}
