//! A thousand sends in fifty sessions, with repeats, aborts and reloads in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use avernest_tests::process::bots_dir;
use avernest_tests::traffic::{Plan, drive, settle};
use avernest_tests::{World, eventually};

/// The same component with a custom section behind it: another build that does the same.
fn build(n: u8) -> Vec<u8> {
    let mut wasm = std::fs::read(bots_dir().join("probe.wasm")).unwrap();
    wasm.extend([0, 3, 1, b'n', n]);
    wasm
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_send_has_one_end_and_its_place() {
    let world = World::start().await;
    let plan = Plan { round: 0, sessions: 50, sends: 20 };
    let done = AtomicBool::new(false);
    let traffic = async {
        let ledgers = drive(&world.bcs, plan, Arc::new(AtomicUsize::new(0))).await;
        let counts = settle(&world.bcs, &ledgers).await;
        done.store(true, Ordering::Relaxed);
        (ledgers, counts)
    };
    let reloads = async {
        let mut reloads: u8 = 0;
        while !done.load(Ordering::Relaxed) || reloads < 3 {
            reloads += 1;
            let part = world.plugins().join(".part");
            std::fs::write(&part, build(reloads)).unwrap();
            std::fs::rename(&part, world.plugins().join("probe.wasm")).unwrap();
            eventually("the reload", async || {
                let all = world.bcs.ping("probe").await.ok()?.accepted().ok()?;
                (all.body["bot"]["reloads"].as_u64() >= Some(u64::from(reloads))).then_some(())
            })
            .await;
        }
        reloads
    };
    let ((ledgers, counts), reloads) = tokio::join!(traffic, reloads);
    println!("{counts:?}, {reloads} reloads");
    assert_eq!(ledgers.iter().map(|l| l.sends.len()).sum::<usize>(), 1_000);
    assert_eq!(counts.completed + counts.aborted, 1_000);
    assert_eq!(counts.aborted, ledgers.iter().map(|l| l.aborted.len()).sum::<usize>());
    world.bcs.assert_clean().unwrap();
}
