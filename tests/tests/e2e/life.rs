//! Starting and stopping: settings, drain, signals.

use std::process::Command;

use avernest::sim::Outcome;
use avernest_tests::process::{Provider, binary};
use avernest_tests::{World, eventually};

#[tokio::test]
async fn a_signal_lets_runs_finish_and_ends_every_stream() {
    for signal in ["TERM", "INT"] {
        let mut world = World::start_with(|o| o.settings = "[server]\ndrain_seconds = 20\n".into()).await;
        let run = world.bcs.send("probe", "a", "wait 1200").await.unwrap().sse().unwrap();
        let queued = world.bcs.send("probe", "a", "echo last").await.unwrap().sse().unwrap();
        let streams = [run.in_background(), queued.in_background()];
        world.provider.signal(signal);
        eventually("the door to be closed", async || {
            let closed = world.bcs.inject("probe", "b", "x").await.ok()?.refused().ok()?;
            (closed.meta.status == 503 && closed.error.code == "unavailable").then_some(())
        })
        .await;
        for stream in streams {
            assert!(stream.await.unwrap().unwrap().outcome.text().is_some());
        }
        assert_eq!(world.provider.wait(), Some(0), "{}", world.provider.log());
        world.bcs.assert_clean().unwrap();
    }
}

#[tokio::test]
async fn what_does_not_finish_is_ended_with_a_terminal_and_callbacks_wait() {
    let mut world = World::start_with(|o| o.settings = "[server]\ndrain_seconds = 0\n".into()).await;
    let mut spin = world.bcs.send("probe", "a", "spin").await.unwrap().sse().unwrap();
    spin.next().await.unwrap();
    let queued = world.bcs.send("probe", "a", "echo no").await.unwrap().sse().unwrap();
    let callback = world.bcs.send("probe", "a", "echo after").callback().await.unwrap().acked().unwrap();
    world.provider.signal("TERM");
    for stream in [spin, queued] {
        let ended = stream.collect().await.unwrap();
        assert_eq!(ended.outcome.error_kind(), Some("shutdown"), "{:?}", ended.outcome);
    }
    assert_eq!(world.provider.wait(), Some(0));
    world.restart();
    assert_eq!(
        world.bcs.outcome(&callback.meta.id).await.unwrap(),
        Outcome::Final { text: "after".into(), stop_reason: None }
    );
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_second_signal_ends_what_is_at_work_now() {
    let mut world = World::start_with(|o| o.settings = "[server]\ndrain_seconds = 3600\n".into()).await;
    let mut spin = world.bcs.send("probe", "a", "spin").await.unwrap().sse().unwrap();
    spin.next().await.unwrap();
    world.provider.signal("INT");
    eventually("the first signal to be taken", async || world.provider.log().contains("stopping").then_some(())).await;
    world.provider.signal("INT");
    assert_eq!(spin.collect().await.unwrap().outcome.error_kind(), Some("shutdown"));
    assert_eq!(world.provider.wait(), Some(0), "{}", world.provider.log());
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let world = World::start().await;
    let refused = Provider::try_start(&world.config());
    let log = refused.err().unwrap();
    assert!(log.contains("another"), "{log}");
    assert_eq!(world.ask("echo", "s", "hi").await, "You said: hi");
}

#[test]
fn without_id_or_token_it_says_what_to_set() {
    let dir = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        let file = dir.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(binary()).args(["serve", "--config"]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("").contains("AVERNEST_PROVIDER__ID"));
    assert!(run("[provider]\nid = \"x\"\n").contains("AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKEN"));
    let typo = run("[provider]\nidd = \"x\"\n");
    assert!(typo.contains("line 2") && typo.contains("`id`"), "{typo}");
    let printed = Command::new(binary()).args(["serve", "--print-config"]).output().unwrap();
    assert!(String::from_utf8(printed.stdout).unwrap().contains("max_clock_skew_seconds = 300"));
}

#[tokio::test]
async fn without_its_data_it_acknowledges_nothing_and_says_so() {
    let world = World::start().await;
    world.bcs.inject("echo", "s", "kept").await.unwrap().accepted().unwrap();
    std::fs::remove_dir_all(world.dir().join("data")).unwrap();
    let refused = world.bcs.inject("echo", "s", "lost").await.unwrap().refused().unwrap();
    assert_eq!((refused.meta.status, refused.error.code.as_str()), (503, "unavailable"));
    let mut ready = avernest_tests::raw::Raw::inject("x");
    ready.method = reqwest::Method::GET;
    ready.path = "/readyz".into();
    assert_eq!(ready.send(&world.base()).await.status, 503);
    assert!(world.provider.log().contains("the data store has failed"));
}
