//! Whatever is done to the files, the registry ends as the folder is.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const STEMS: [&str; 4] = ["a", "b", "c", "d"];

/// One random change.
async fn disturb(folder: &Folder, random: &mut StdRng, n: usize) {
    let stem = STEMS[random.random_range(0..STEMS.len())];
    let (wasm, toml) = (format!("{stem}.wasm"), format!("{stem}.toml"));
    let other = STEMS[random.random_range(0..STEMS.len())];
    // What is to be removed may not be there.
    match random.random_range(0..10) {
        0 | 1 => folder.put(&wasm, &format!("good:{stem}{n};")),
        2 => fs::write(folder.path(&wasm), format!("good:{stem}{n};")).unwrap(),
        3 => folder.put(&wasm, "bad:x"),
        4 => fs::write(folder.path(&wasm), "good:half").unwrap(),
        5 => drop(fs::remove_file(folder.path(&wasm))),
        6 => folder.put(&toml, &format!("ref = \"{other}\"")),
        7 => folder.put(&toml, &format!("component = \"{other}.wasm\"\n[limits]\nlog_kb = {n}")),
        8 => folder.put(&toml, "ref ="),
        _ => drop(fs::remove_file(folder.path(&toml))),
    }
    if random.random_bool(0.5) {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_disorder_ends_as_the_folder_is() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = Folder::with(&[], |options| {
        options.settle = Duration::from_millis(20);
        options.young = Duration::from_millis(50);
    })
    .await;
    for round in 0..25 {
        for n in 0..random.random_range(1..15) {
            disturb(&folder, &mut random, n).await;
        }
        // Then each file is put in order: gone, or good under a reference of its own, which may have been another's.
        let turn = random.random_range(0..STEMS.len());
        let mut expected = Vec::new();
        for (at, stem) in STEMS.iter().enumerate() {
            let (wasm, toml) = (format!("{stem}.wasm"), format!("{stem}.toml"));
            if random.random_bool(0.3) {
                drop(fs::remove_file(folder.path(&toml)));
                drop(fs::remove_file(folder.path(&wasm)));
                continue;
            }
            let bot = STEMS[(at + turn) % STEMS.len()];
            folder.put(&wasm, &format!("good:{stem}-{round};"));
            folder.put(&toml, &format!("ref = \"{bot}\""));
            expected.push((bot.to_owned(), format!("{stem}-{round}")));
        }
        expected.sort();
        let now = || -> Vec<(String, String)> {
            let statuses = folder.registry.statuses().into_iter().filter(|status| status.last_error.is_none());
            statuses.map(|status| (status.bot_ref.to_string(), folder.answer(status.bot_ref.as_str()))).collect()
        };
        let what = format!("{expected:?} in round {round} of seed {seed}");
        let in_order = || now() == expected && folder.registry.statuses().len() == expected.len();
        folder.eventually(&what, || in_order() && folder.registry.problems().is_empty()).await;
    }
}
