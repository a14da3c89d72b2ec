//! kill -9 in the middle of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use avernest::sim::{Outcome, ViolationKind};
use avernest_tests::traffic::{Plan, drive, settle};
use avernest_tests::{World, eventually};

/// What a killed provider cannot help.
const EXPECTED: [ViolationKind; 2] = [ViolationKind::NoTerminal, ViolationKind::StreamBroken];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill_under_load() {
    let mut world = World::start().await;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let plan = Plan { round: 0, sessions: 50, sends: 20 };
    let traffic = {
        let (bcs, acknowledged) = (world.bcs.clone(), acknowledged.clone());
        tokio::spawn(async move { drive(&bcs, plan, acknowledged).await })
    };
    eventually("half of the traffic", async || (acknowledged.load(Ordering::Relaxed) > 400).then_some(())).await;
    world.crash_and_restart();
    let ledgers = traffic.await.unwrap();
    let counts = settle(&world.bcs, &ledgers).await;
    println!("{counts:?}");
    assert!(counts.completed > 0);
    world.bcs.assert_clean_but(&EXPECTED).unwrap();
}

#[tokio::test]
async fn waiting_runs_run_and_running_ones_are_reported() {
    let mut world = World::start().await;
    let running = world.bcs.send("probe", "s", "spin").id("running").callback();
    running.clone().await.unwrap().acked().unwrap();
    world.bcs.send("probe", "s", "echo waited").id("waiting").callback().await.unwrap().acked().unwrap();
    let stream = world.bcs.send("probe", "s", "echo stream").id("stream").await.unwrap().sse().unwrap();
    eventually("the first to be running", async || {
        let all = world.bcs.ping("").await.unwrap().accepted().unwrap();
        (all.body["running"] == 1).then_some(())
    })
    .await;
    world.crash_and_restart();
    let failed = world.bcs.outcome("running").await.unwrap();
    assert!(matches!(failed, Outcome::Error { .. }), "{failed}");
    assert_eq!(world.bcs.outcome("waiting").await.unwrap().text(), Some("waited"));
    drop(stream);
    // The same request again has the same answer, and its run is not begun again.
    running.await.unwrap().acked().unwrap();
    assert_eq!(world.bcs.callbacks("running").len(), 1);
    world.bcs.assert_clean_but(&EXPECTED).unwrap();
}

#[tokio::test]
async fn a_bot_that_allows_it_runs_again() {
    let mut world = World::start_with(|o| o.bots = vec!["echo", "probe"]).await;
    let manifest = world.plugins().join("again.toml");
    std::fs::write(&manifest, "component = \"probe.wasm\"\n[runs]\nrerun_after_crash = true\n").unwrap();
    eventually("the bot", async || world.bcs.ping("again").await.unwrap().accepted().ok()).await;
    world.bcs.send("again", "s", "wait 1500").id("twice").callback().await.unwrap().acked().unwrap();
    eventually("it to be running", async || {
        let all = world.bcs.ping("").await.unwrap().accepted().unwrap();
        (all.body["running"] == 1).then_some(())
    })
    .await;
    world.crash_and_restart();
    assert!(world.bcs.outcome("twice").await.unwrap().text().is_some());
    assert_eq!(world.bcs.callbacks("twice").len(), 1);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn repeats_after_a_restart_have_the_same_answer() {
    let mut world = World::start().await;
    let send = world.bcs.send("probe", "s", "count").id("kept");
    send.clone().await.unwrap().sse().unwrap().collect().await.unwrap();
    let abort = world.bcs.abort("probe", "s").id("kept-abort");
    let refused = abort.clone().await.unwrap().refused().unwrap();
    assert_eq!(refused.meta.status, 410);
    world.crash_and_restart();
    let again = send.await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(again.text(), "1");
    assert_eq!(abort.await.unwrap().refused().unwrap().meta.status, 410);
    assert_eq!(world.ask("probe", "s", "count").await, "2");
    world.bcs.assert_clean().unwrap();
}
