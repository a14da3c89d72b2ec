//! kill -9 again and again on one data directory, at random points under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use avernest::sim::ViolationKind;
use avernest_tests::traffic::{Plan, drive, settle};
use avernest_tests::{World, eventually};

/// Kills in a row: few in the tests of every day, `cargo xtask soak` asks for more.
fn rounds() -> usize {
    std::env::var("AVERNEST_TORTURE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_however_often_it_is_killed() {
    let mut world = World::start().await;
    let mut all = Vec::new();
    let mut sends = 0;
    for round in 0..rounds() {
        let plan = Plan { round, sessions: 10, sends: 10 };
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let traffic = {
            let (bcs, acknowledged) = (world.bcs.clone(), acknowledged.clone());
            tokio::spawn(async move { drive(&bcs, plan, acknowledged).await })
        };
        // Somewhere in the middle: after so many acknowledgements, and then at a moment between two.
        let point = rand::random_range(0..90);
        eventually("the point of the kill", async || (acknowledged.load(Ordering::Relaxed) >= point).then_some(()))
            .await;
        tokio::time::sleep(Duration::from_micros(rand::random_range(0..20_000))).await;
        world.crash_and_restart();
        let ledgers = traffic.await.unwrap();
        let counts = settle(&world.bcs, &ledgers).await;
        sends += ledgers.iter().map(|l| l.sends.len()).sum::<usize>();
        println!("round {round}: killed after {point} acknowledgements, then {counts:?}");
        all.extend(ledgers);
    }
    // And everything of all rounds is still there.
    let counts = settle(&world.bcs, &all).await;
    println!("{} kills, {sends} acknowledged sends, {counts:?}", rounds());
    world.bcs.assert_clean_but(&[ViolationKind::NoTerminal, ViolationKind::StreamBroken]).unwrap();
}
