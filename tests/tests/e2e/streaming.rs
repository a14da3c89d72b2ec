//! `chat.send` over SSE: frames, order, ends, repeats.

use std::time::Duration;

use avernest::sim::{Event, Outcome, Transport};
use avernest_tests::{World, eventually};
use serde_json::json;

#[tokio::test]
async fn a_reply_streams_word_by_word_and_ends_once() {
    let world = World::start().await;
    let said = world.say("echo", "s", "one two three").await;
    assert_eq!(said.text(), "You said: one two three");
    let deltas: Vec<_> = said.events.iter().filter_map(|e| e.delta()).collect();
    assert_eq!(deltas, ["You ", "said: ", "one ", "two ", "three"]);
    let seqs: Vec<_> = said.events.iter().filter_map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=said.events.len() as u64).collect::<Vec<_>>());
    let n = said.events.len();
    assert!(said.events[0].is_agent("lifecycle", "start"));
    assert!(said.events[n - 2].is_agent("lifecycle", "end"));
    assert!(said.events[n - 1].is_terminal());
    assert_eq!(said.events[2].raw["delta_text"], said.events[2].raw["deltaText"]);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn headers_come_before_the_bot_does() {
    let world = World::start().await;
    let mut run = world.bcs.send("probe", "s", "wait 60000").await.unwrap().sse().unwrap();
    let first = run.next().await.unwrap().unwrap();
    assert!(first.is_agent("lifecycle", "start"));
    assert!(run.meta().headers_after < Duration::from_secs(5));
    assert_eq!(run.meta().headers["content-type"], "text/event-stream; charset=utf-8");
    world.bcs.abort("probe", "s").await.unwrap().accepted().unwrap();
    assert!(matches!(run.collect().await.unwrap().outcome, Outcome::Aborted { .. }));
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn http_1_and_http_2_are_served_on_one_port() {
    let world = World::start().await;
    for (request, version) in [
        (world.bcs.send("echo", "s", "hi").http1(), http::Version::HTTP_11),
        (world.bcs.send("echo", "s", "hi").http2(), http::Version::HTTP_2),
    ] {
        let run = request.await.unwrap().sse().unwrap();
        assert_eq!(run.meta().http, version);
        assert_eq!(run.collect().await.unwrap().text(), "You said: hi");
    }
    let inject = world.bcs.inject("echo", "s", "note").http2().await.unwrap().accepted().unwrap();
    assert_eq!(inject.meta.http, http::Version::HTTP_2);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn each_kind_of_failure_is_an_error_event() {
    let world = World::start().await;
    for (text, kind, words) in [
        ("fail rejected not this", "rejected", "not this"),
        ("fail unavailable later", "unavailable", "later"),
        ("fail failed oh", "failed", "oh"),
        ("trap", "trap", ""),
        ("panic boom", "trap", "trapped"),
        ("alloc 2000", "limit", "memory_mb"),
        ("no such command", "rejected", ""),
    ] {
        let said = world.say("probe", "s", text).await;
        let Outcome::Error { message, kind: told } = &said.outcome else { panic!("{text}: {:?}", said.outcome) };
        assert_eq!(told.as_deref(), Some(kind), "{text}: {message}");
        assert!(message.contains(words), "{text}: {message}");
        // A guest's last words and where it was are for its author: they are in the bot's log.
        assert!(!message.contains("boom") && !message.contains("0x"), "{text}: {message}");
    }
    let log = world.dir().join("data/bot-logs/probe.jsonl");
    eventually("the bot's log to have it", async || {
        let log = std::fs::read_to_string(&log).ok()?;
        (log.contains("boom") && log.contains("backtrace")).then_some(())
    })
    .await;
    // And the session goes on.
    assert_eq!(world.ask("probe", "s", "echo still here").await, "still here");
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn texts_of_any_kind_and_size_come_back_unchanged() {
    let world = World::start().await;
    for text in ["👋 grüße 你好", "a\r\nb\tc\u{0}d\u{2028}", "\"\\ </script>"] {
        assert_eq!(world.ask("probe", "s", &format!("echo {text}")).await, text);
    }
    let large = "naïve 👋\u{0}".repeat(5 * 1024 * 1024 / 12);
    assert!(world.ask("probe", "s", &format!("echo {large}")).await == large);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_reply_larger_than_a_frame_arrives_whole() {
    let world = World::start().await;
    let reply = world.ask("probe", "s", "say 20000000").await;
    assert_eq!(reply.len(), 20_000_000);
    let said = world.say("probe", "s", "say 40000000").await;
    assert_eq!(said.outcome.error_kind(), Some("limit"), "{:?}", said.outcome);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn ten_thousand_deltas_are_bounded_and_the_final_has_all() {
    let world = World::start_with(|o| o.settings = "[runs]\nevent_log_events = 100\n".into()).await;
    let said = world.say("probe", "s", "stream 10000").await;
    assert!(said.events.len() < 110, "{}", said.events.len());
    let streamed: String = said.events.iter().filter_map(|e| e.delta()).collect();
    assert!(said.text().len() > streamed.len() && said.text().starts_with(&streamed));
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_repeat_re_attaches_and_runs_nothing_twice() {
    let world = World::start().await;
    let send = world.bcs.send("probe", "s", "count").id("same");
    let first = send.clone().await.unwrap().sse().unwrap().collect().await.unwrap();
    let again = send.clone().timeout_ms(5).await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!((first.text(), again.text()), ("1", "1"));
    assert_eq!(world.ask("probe", "s", "count").await, "2");
    // While it runs: replay, then live.
    let wait = world.bcs.send("probe", "w", "wait 600000").id("long");
    let mut one = wait.clone().await.unwrap().sse().unwrap();
    one.next().await.unwrap();
    let mut two = wait.await.unwrap().sse().unwrap();
    two.next().await.unwrap();
    world.bcs.abort("probe", "w").await.unwrap().accepted().unwrap();
    for run in [one, two] {
        assert!(matches!(run.collect().await.unwrap().outcome, Outcome::Aborted { .. }));
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn another_body_or_method_or_transport_under_a_used_id_is_a_conflict() {
    let world = World::start().await;
    world.bcs.send("echo", "s", "one").id("x").await.unwrap().sse().unwrap().collect().await.unwrap();
    let other = world.bcs.send("echo", "s", "two").id("x").await.unwrap().refused().unwrap();
    assert_eq!((other.meta.status, other.error.code.as_str()), (409, "conflict"));
    let inject = world.bcs.inject("echo", "s", "one").id("x").await.unwrap().refused().unwrap();
    assert_eq!(inject.meta.status, 409);
    let abort = world.bcs.abort("echo", "s").id("x").await.unwrap().refused().unwrap();
    assert_eq!(abort.meta.status, 409);
    let callback = world.bcs.send("echo", "s", "one").id("x").transport(Transport::Callback).await.unwrap();
    assert_eq!(callback.refused().unwrap().meta.status, 409);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_deadline_ends_what_spins_what_waits_and_what_is_queued() {
    let world = World::start().await;
    for text in ["spin", "wait 600000"] {
        let run = world.bcs.send("probe", text, text).timeout_ms(700).await.unwrap().sse().unwrap();
        let queued = world.bcs.send("probe", text, "echo never").timeout_ms(300).await.unwrap().sse().unwrap();
        let queued = queued.collect().await.unwrap();
        assert_eq!(queued.outcome.error_kind(), Some("timeout"), "{:?}", queued.outcome);
        let ended = run.collect().await.unwrap();
        assert_eq!(ended.outcome.error_kind(), Some("timeout"), "{:?}", ended.outcome);
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_stream_that_nobody_reads_ends_after_its_grace() {
    let world = World::start_with(|o| o.settings = "[runs]\ndetach_grace_seconds = 1\n".into()).await;
    let wait = world.bcs.send("probe", "s", "wait 600000").id("gone");
    let mut run = wait.clone().await.unwrap().sse().unwrap();
    run.next().await.unwrap();
    drop(run);
    // The session becomes free again; without the grace it would be busy for ten minutes.
    assert_eq!(world.ask("probe", "s", "echo free").await, "free");
    let again = wait.await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(again.outcome.error_kind(), Some("detached"), "{:?}", again.outcome);
}

#[tokio::test]
async fn the_bot_is_given_all_that_came() {
    let world = World::start().await;
    let message = json!({"role": "user", "content": [
        {"type": "text", "text": "{\"sender\":{\"id\":\"41\",\"name\":\"张三\"}}\n\nrequest"},
        {"type": "poll", "unknown": [1, 2]},
    ], "timestamp": 17, "future": true});
    let said = world
        .bcs
        .send("probe", "s", "")
        .message(message)
        .tags(&["a", "b"])
        .group("g1")
        .from(json!({"kind": "bot", "name": "someone", "actor_id": "human_1"}))
        .attachments(json!([{"attachment_id": "f", "type": "file", "file_name": "a.txt", "mime_type": "text/plain",
            "url": "https://example.com/cap"}]))
        .extensions(json!({"caller_wait_mode": "detached"}))
        .await
        .unwrap()
        .sse()
        .unwrap()
        .collect()
        .await
        .unwrap();
    for part in ["张三", "human", "\"a\"", "\"b\"", "g1", "a.txt", "text/plain", "caller_wait_mode", "poll", "future"]
    {
        let found = said.text().contains(part);
        // The sender line's author goes before `from`.
        assert_eq!(found, part != "human", "{part}: {}", said.text());
    }
    assert!(said.events.iter().all(|e| !matches!(e.event, Event::Ping)));
    world.bcs.assert_clean().unwrap();
}
