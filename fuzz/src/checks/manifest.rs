//! A bot's manifest.

use std::path::Component;
use std::time::Duration;

use avernest::bot::manifest::Manifest;

const KIB: usize = 1024;
const MIB: usize = 1024 * 1024;

/// A manifest is refused with a short sentence that has a line of the file, or every limit it sets is in its range and
/// its component is a `.wasm` inside the folder.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let manifest = match Manifest::parse("bot.toml", text) {
        Ok(manifest) => manifest,
        Err(error) => {
            super::sentence(&error.to_string(), 2048);
            assert!(error.line.is_none_or(|line| (1..=text.split('\n').count()).contains(&line)), "{error}");
            return;
        }
    };
    let within = |value: Option<usize>, min: usize, max: usize| value.is_none_or(|value| (min..=max).contains(&value));
    let seconds = |value: Option<Duration>, max| {
        value.is_none_or(|value| (1..=max).contains(&value.as_secs()) && value.subsec_nanos() == 0)
    };
    let limits = &manifest.limits;
    assert!(within(limits.memory_bytes, MIB, 4096 * MIB), "{limits:?}");
    assert!(within(limits.table_elements, 1, 10_000_000), "{limits:?}");
    assert!(seconds(limits.cpu_time, 86_400) && seconds(limits.inject_time, 3_600), "{limits:?}");
    assert!(within(limits.output_bytes, MIB, 1024 * MIB), "{limits:?}");
    assert!(within(limits.state_bytes, 0, 1024 * 1024 * KIB), "{limits:?}");
    assert!(within(limits.state_keys, 0, 1_000_000), "{limits:?}");
    assert!(within(limits.host_data_bytes, MIB, 1024 * MIB), "{limits:?}");
    assert!(within(limits.log_bytes, 0, 1024 * 1024 * KIB), "{limits:?}");
    assert!(within(limits.max_concurrent, 1, 100_000), "{limits:?}");
    if let Some(path) = &manifest.component {
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        assert!(path.extension().is_some_and(|ending| ending == "wasm"), "{path:?}");
        assert!(!path.as_os_str().as_encoded_bytes().contains(&0), "{path:?}");
    }
    // The card is kept for the registration.
    let card = serde_json::to_string(&manifest.bot).unwrap_or_default();
    assert!(
        serde_json::from_str(&card).is_ok_and(|again: avernest::bot::manifest::BotCard| again == manifest.bot),
        "{card}"
    );
}
