//! Bots come, change and go while the provider serves.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::Duration;

use avernest_tests::process::bots_dir;
use avernest_tests::{World, eventually};
use serde_json::Value;

async fn status(world: &World, bot: &str) -> Option<Value> {
    world.bcs.ping(bot).await.unwrap().accepted().ok().map(|ack| ack.body["bot"].clone())
}

async fn until(world: &World, bot: &str, what: &str, ok: impl Fn(Option<&Value>) -> bool) {
    eventually(what, async || {
        let status = status(world, bot).await;
        ok(status.as_ref()).then_some(())
    })
    .await;
}

fn state(status: Option<&Value>) -> &str {
    status.and_then(|s| s["state"].as_str()).unwrap_or("absent")
}

#[tokio::test]
async fn a_bot_comes_is_replaced_goes_and_comes_back() {
    let world = World::start().await;
    let file = world.plugins().join("new.wasm");
    assert!(status(&world, "new").await.is_none());
    world.install("echo", "new");
    until(&world, "new", "the new bot", |s| state(s) == "serving").await;
    assert_eq!(world.ask("new", "s", "hi").await, "You said: hi");
    // A run under way keeps the build that it began with.
    let mut under_way = world.bcs.send("probe", "w", "wait 1500").await.unwrap().sse().unwrap();
    under_way.next().await.unwrap();
    let before = status(&world, "probe").await.unwrap()["version"].clone();
    std::fs::copy(bots_dir().join("echo.wasm"), world.plugins().join("probe.wasm")).unwrap();
    until(&world, "probe", "the other build", |s| s.is_some_and(|s| s["version"] != before)).await;
    assert_eq!(world.ask("probe", "v", "hi").await, "You said: hi");
    assert!(under_way.collect().await.unwrap().outcome.text().is_some());
    std::fs::remove_file(&file).unwrap();
    until(&world, "new", "the bot to be gone", |s| s.is_none()).await;
    assert_eq!(world.bcs.send("new", "s", "hi").await.unwrap().refused().unwrap().meta.status, 404);
    world.install("probe", "new");
    until(&world, "new", "the bot to be back", |s| state(s) == "serving").await;
    assert_eq!(world.ask("new", "s", "echo back").await, "back");
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_bad_build_leaves_the_last_good_one_serving_and_says_why() {
    let world = World::start().await;
    let file = world.plugins().join("echo.wasm");
    let good = std::fs::read(&file).unwrap();
    let core = wat::parse_str("(module (func (export \"send\")))").unwrap();
    let alien = wat::parse_str("(component)").unwrap();
    for (what, bytes) in
        [("no wasm", &b"#!/bin/sh\n"[..]), ("truncated", &good[..good.len() / 2]), ("core", &core), ("world", &alien)]
    {
        std::fs::write(&file, bytes).unwrap();
        until(&world, "echo", what, |s| s.is_some_and(|s| s["newer_refused"] == true)).await;
        let said = status(&world, "echo").await.unwrap();
        assert_eq!(state(Some(&said)), "serving", "{what}");
        assert!(said["last_error"]["message"].as_str().is_some_and(|m| m.len() > 20), "{said}");
        assert_eq!(world.ask("echo", "s", "hi").await, "You said: hi", "{what}");
        std::fs::write(&file, &good).unwrap();
        until(&world, "echo", "mended", |s| s.is_some_and(|s| s["newer_refused"] == false)).await;
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_bot_that_never_worked_is_refused_as_unavailable() {
    let world = World::start().await;
    std::fs::write(world.plugins().join("bad.wasm"), "nonsense").unwrap();
    until(&world, "bad", "the bad bot", |s| state(s) == "broken").await;
    let refusal = world.bcs.send("bad", "s", "hi").await.unwrap().refused().unwrap();
    assert_eq!((refusal.meta.status, refusal.error.code.as_str()), (503, "unavailable"));
    assert!(world.provider.log().contains("bad.wasm"));
}

#[tokio::test]
async fn a_file_that_is_written_slowly_is_never_broken() {
    let world = World::start().await;
    let bytes = std::fs::read(bots_dir().join("probe.wasm")).unwrap();
    let mut file = std::fs::File::create(world.plugins().join("echo.wasm")).unwrap();
    let steps = 20;
    for part in bytes.chunks(bytes.len().div_ceil(steps)) {
        file.write_all(part).unwrap();
        file.sync_all().unwrap();
        // The pace of the writer is what is tested.
        tokio::time::sleep(Duration::from_millis(2_000 / steps as u64)).await;
        let said = status(&world, "echo").await.unwrap();
        assert_eq!(state(Some(&said)), "serving");
    }
    drop(file);
    let old = world.ask("echo", "s", "echo hi").await;
    if old != "hi" {
        eventually("the new build", async || (world.ask("echo", "s", "echo hi").await == "hi").then_some(())).await;
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_symlink_swap_is_a_new_build() {
    let world = World::start().await;
    for (dir, bot) in [("v1", "echo"), ("v2", "probe")] {
        let dir = world.dir().join(dir);
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(bots_dir().join(format!("{bot}.wasm")), dir.join("linked.wasm")).unwrap();
    }
    // As a mounted Kubernetes config map: `linked.wasm` → `..data/linked.wasm`, and `..data` is swapped.
    let data = world.plugins().join("..data");
    symlink(world.dir().join("v1"), &data).unwrap();
    symlink("..data/linked.wasm", world.plugins().join("linked.wasm")).unwrap();
    until(&world, "linked", "the linked bot", |s| state(s) == "serving").await;
    assert_eq!(world.ask("linked", "s", "echo hi").await, "You said: echo hi");
    let fresh = world.plugins().join("..data_tmp");
    symlink(world.dir().join("v2"), &fresh).unwrap();
    std::fs::rename(&fresh, &data).unwrap();
    eventually("the swapped build", async || (world.ask("linked", "s", "echo hi").await == "hi").then_some(())).await;
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_manifest_gives_another_ref_and_limits() {
    let world = World::start().await;
    std::fs::write(
        world.plugins().join("small.toml"),
        "component = \"probe.wasm\"\nref = \"team:small\"\n[limits]\nmemory_mb = 8\n",
    )
    .unwrap();
    until(&world, "team:small", "the second ref", |s| state(s) == "serving").await;
    let said = world.say("team:small", "s", "alloc 64").await;
    assert_eq!(said.outcome.error_kind(), Some("limit"), "{:?}", said.outcome);
    assert!(world.say("probe", "s", "alloc 64").await.outcome.text().is_some());
    std::fs::write(world.plugins().join("small.toml"), "component = \"probe.wasm\"\nreff = \"x\"\n").unwrap();
    eventually("the manifest's error", async || {
        let all = world.bcs.ping("").await.unwrap().accepted().unwrap();
        Value::Object(all.body).to_string().contains("line 2").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_removed_bot_still_answers_for_what_it_did() {
    let world = World::start().await;
    let done = world.bcs.send("probe", "s", "echo once").id("done");
    done.clone().await.unwrap().sse().unwrap().collect().await.unwrap();
    let mut spin = world.bcs.send("probe", "t", "spin").await.unwrap().sse().unwrap();
    spin.next().await.unwrap();
    std::fs::remove_file(world.plugins().join("probe.wasm")).unwrap();
    until(&world, "probe", "the bot to be gone", |s| s.is_none()).await;
    assert_eq!(done.await.unwrap().sse().unwrap().collect().await.unwrap().text(), "once");
    assert_eq!(world.bcs.history("probe", "s").await.unwrap().accepted().unwrap().messages.len(), 2);
    assert!(world.bcs.abort("probe", "t").await.unwrap().accepted().unwrap().aborted);
    spin.collect().await.unwrap();
    assert_eq!(world.bcs.send("probe", "s", "new").await.unwrap().refused().unwrap().meta.status, 404);
    world.bcs.assert_clean().unwrap();
}
