//! The checks of the fuzz targets on their seeds, and on damaged copies of these: minutes of `cargo xtask fuzz` find more,
//! but what it has found once is a seed, and stays found here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../fuzz/src/checks/mod.rs"]
mod checks;

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let seeds: Vec<_> = files.collect();
    assert!(seeds.len() >= 5, "{} has few seeds", dir.display());
    seeds
}

/// One small damage.
#[derive(Debug, Clone)]
enum Damage {
    Put(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, u8),
    Repeat(Index, u8, u8),
    /// The end of another seed in place of this one's.
    Graft(Index, Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let text = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..4),
        "\\PC{1,3}".prop_map(String::into_bytes),
        proptest::sample::select(vec![
            "\"", "{", "]", "\n", "\r\n", ":", "null", "-1", "1e400", "\\u0000", "\\ud800", "="
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Put(at, byte)),
        (at(), text).prop_map(|(at, text)| Damage::Insert(at, text)),
        (at(), any::<u8>()).prop_map(|(at, len)| Damage::Cut(at, len)),
        (at(), any::<u8>(), 0..100_u8).prop_map(|(at, len, times)| Damage::Repeat(at, len, times)),
        (at(), at(), at()).prop_map(|(at, seed, from)| Damage::Graft(at, seed, from)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match damage {
        Damage::Put(at, byte) => {
            let at = place(at, bytes);
            bytes.splice(at..(at + 1).min(bytes.len()), [*byte]);
        }
        Damage::Insert(at, text) => {
            let at = place(at, bytes);
            bytes.splice(at..at, text.iter().copied());
        }
        Damage::Cut(at, len) => {
            let at = place(at, bytes);
            bytes.drain(at..(at + usize::from(*len)).min(bytes.len()));
        }
        Damage::Repeat(at, len, times) => {
            let at = place(at, bytes);
            let part = bytes[at..(at + usize::from(*len)).min(bytes.len())].repeat(usize::from(*times));
            bytes.splice(at..at, part);
        }
        Damage::Graft(at, seed, from) => {
            let other = seed.get(seeds);
            let at = place(at, bytes);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[place(from, other)..]);
        }
    }
}

/// Tries a target's seeds, then so many damaged copies.
fn try_all(target: &str, check: fn(&[u8])) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    let default = ProptestConfig::default();
    let cases = default.cases.max(1_000);
    let mut config = ProptestConfig { cases, failure_persistence: None, ..default };
    config.test_name = Some("hostile_input");
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let copies = (any::<Index>(), proptest::collection::vec(damage(), 1..8));
    let tried = runner.run(&copies, |(seed, damages)| {
        let mut bytes = seed.get(&seeds).clone();
        damages.iter().for_each(|damage| apply(damage, &mut bytes, &seeds));
        check(&bytes);
        Ok(())
    });
    tried.unwrap();
}

#[test]
fn webhook_bodies() {
    try_all("webhook_body", checks::webhook_body);
}

#[test]
fn webhook_headers() {
    try_all("webhook_headers", checks::webhook_headers);
}

#[test]
fn sse_frames() {
    try_all("sse_writer", checks::sse_writer);
}

#[test]
fn manifests() {
    try_all("manifest", checks::manifest);
}

#[test]
fn settings() {
    try_all("settings", checks::settings);
}
