//! Open streams over real sockets.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;

use super::super::{BcsOptions, Outcome, Phase, SimError, ViolationKind::*};
use super::provider::{delta, frame, last, scripted, scripted_with, sse, sse_body, sse_open};
use super::{kinds, options};

#[tokio::test]
async fn a_good_run_over_both_http_versions() {
    let bcs = scripted(|_| async { sse(vec![delta(1, "he"), ": heartbeat\n\n".into(), last(2, "hello")]) }).await;
    for (request, version) in [
        (bcs.send("b", "s", "t").id("h2"), http::Version::HTTP_2),
        (bcs.send("b", "s", "t").id("h1").http1(), http::Version::HTTP_11),
    ] {
        let id = request.request_id().to_owned();
        let run = request.await.unwrap().sse().unwrap();
        assert_eq!(run.meta().http, version);
        let run = run.collect().await.unwrap();
        assert_eq!((run.text(), run.events.len()), ("hello", 2));
        assert!(run.first_event_after.unwrap() >= run.headers_after);
        assert_eq!(bcs.outcome(&id).await.unwrap(), run.outcome);
        assert_eq!(bcs.run(&id).unwrap().provider_run_id.as_deref(), Some("p-run"));
    }
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn byte_by_byte_and_without_the_last_blank_line() {
    let bcs = scripted(|_| async {
        let bytes = [delta(1, "жиза"), last(2, "жизa")].concat();
        let bytes = &bytes[..bytes.len() - 2];
        sse(bytes.chunks(1).map(Bytes::copy_from_slice).collect())
    })
    .await;
    let run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(run.text(), "жизажизa", "the last letters differ");
    assert_eq!(kinds(&bcs), [FinalNotPrefix]);
}

#[tokio::test]
async fn streams_that_do_not_end_well() {
    let cases = [
        (vec![delta(1, "a")], vec![NoTerminal]),
        (vec![], vec![NoTerminal]),
        (vec![delta(1, "a"), last(1, "a")], vec![SeqNotRising, NoTerminal]),
        (vec![delta(1, "a"), delta(1, "a"), last(2, "a")], vec![SeqNotRising]),
        (vec![last(1, "a"), delta(2, "b")], vec![AfterTerminal]),
        (vec![last(1, "a"), Bytes::from("event: chat\ndata: {}")], vec![AfterTerminal]),
        (vec![Bytes::from("data: ".to_owned() + &"x".repeat(9 << 20)), last(1, "a")], vec![FrameTooLarge]),
    ];
    for (frames, mut expected) in cases {
        expected.sort();
        let told = expected == [SeqNotRising] || expected == [AfterTerminal];
        let bcs = scripted(move |_| {
            let frames = frames.clone();
            async move { sse(frames) }
        })
        .await;
        let run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
        assert_eq!(kinds(&bcs), expected);
        assert_eq!(run.outcome.is_told(), told, "{expected:?}");
        assert_eq!(bcs.outcome(&run.run_id).await.unwrap(), run.outcome);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_and_one_that_stays_open() {
    let seen = Arc::new(Notify::new());
    let wait = seen.clone();
    let bcs = scripted(move |_| {
        use futures_util::StreamExt;
        let wait = wait.clone();
        let broken = futures_util::stream::once(async move {
            wait.notified().await;
            Err(std::io::Error::other("gone"))
        });
        async { sse_body(Body::from_stream(futures_util::stream::iter([Ok(delta(1, "a"))]).chain(broken))) }
    })
    .await;
    let mut run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap();
    assert_eq!(run.next().await.unwrap().unwrap().delta(), Some("a"));
    seen.notify_one();
    let run = run.collect().await.unwrap();
    assert_eq!((run.outcome.is_told(), kinds(&bcs)), (false, vec![StreamBroken]));

    let bcs = scripted(|_| async { sse_open(vec![last(1, "a")]) }).await;
    let run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!((run.text(), kinds(&bcs)), ("a", vec![StreamLeftOpen]));
}

#[tokio::test]
async fn waiting_is_bounded() {
    let ms = Duration::from_millis;
    let bcs = scripted(|_| async { sse_open(vec![delta(1, "a")]) }).await;
    let mut run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().patience(ms(50));
    assert_eq!(run.next().await.unwrap().unwrap().delta(), Some("a"));
    assert!(matches!(run.next().await, Err(SimError::TimedOut { .. })));
    let id = run.run_id().to_owned();
    assert!(matches!(bcs.outcome_within(&id, ms(20)).await, Err(SimError::TimedOut { .. })));
    bcs.assert_clean().unwrap();

    let run = bcs.send("b", "s", "t").timeout_ms(20).await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!((run.outcome.is_told(), kinds(&bcs)), (false, vec![DeadlineMissed]));

    let silent = BcsOptions { idle_timeout: ms(50), ..options() };
    let bcs = scripted_with(silent, |_, _| Box::pin(async { sse_open(vec![delta(1, "a")]) })).await;
    let run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!((run.outcome.is_told(), kinds(&bcs)), (false, vec![StreamSilent]));
}

#[tokio::test]
async fn the_end_just_after_the_deadline_is_still_taken() {
    let patient = BcsOptions { deadline_grace: Duration::from_secs(30), ..options() };
    let bcs = scripted_with(patient, |_, _| {
        Box::pin(async {
            let late = futures_util::stream::once(async {
                tokio::time::sleep(Duration::from_millis(80)).await;
                Ok::<_, std::io::Error>(frame(
                    "chat",
                    1,
                    json!({"state": "error", "errorMessage": "late", "errorKind": "timeout"}),
                ))
            });
            sse_body(Body::from_stream(late))
        })
    })
    .await;
    let run = bcs.send("b", "s", "t").timeout_ms(30).await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(run.outcome.error_kind(), Some("timeout"));
    bcs.assert_clean().unwrap();
}

/// Tells when the stream that carries it is dropped by its server.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn dropping_a_run_closes_its_stream_only() {
    let gone = Arc::new(Notify::new());
    let watch = gone.clone();
    let bcs = scripted(move |hit| {
        let guard = (hit.id() == "first").then(|| Dropped(watch.clone()));
        async move {
            use futures_util::StreamExt;
            let first = futures_util::stream::iter([Ok::<_, std::io::Error>(delta(1, "a"))]);
            let rest = futures_util::stream::once(async move {
                let _guard = guard;
                std::future::pending().await
            });
            sse_body(Body::from_stream(first.chain(rest)))
        }
    })
    .await;
    for http1 in [false, true] {
        let request = |id: &str| {
            let request = bcs.send("b", "s", "t").id(id);
            if http1 { request.http1() } else { request }
        };
        let mut first = request("first").await.unwrap().sse().unwrap();
        let mut second = request(if http1 { "second-1" } else { "second-2" }).await.unwrap().sse().unwrap();
        first.next().await.unwrap().unwrap();
        drop(first);
        tokio::time::timeout(Duration::from_secs(5), gone.notified()).await.expect("the stream is closed");
        assert_eq!(second.next().await.unwrap().unwrap().delta(), Some("a"));
    }
    assert_eq!(bcs.run("first").unwrap().outcome, None);
    assert_eq!(bcs.run("first").unwrap().phase, Phase::Sse);
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_repeated_send_must_tell_the_same_end() {
    let bcs = scripted(|hit| async move {
        let text = if hit.header("x-other").is_some() { "b" } else { "a" };
        sse(vec![last(1, text)])
    })
    .await;
    let request = bcs.send("b", "s", "t").id("r");
    for _ in 0..2 {
        request.clone().await.unwrap().sse().unwrap().collect().await.unwrap();
    }
    bcs.assert_clean().unwrap();
    request.header("x-other", "1").await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(kinds(&bcs), [OutcomeDiffers]);
    assert_eq!(bcs.outcome("r").await.unwrap(), Outcome::Final { text: "a".into(), stop_reason: None });
}

#[tokio::test]
async fn an_interaction_is_resolved_with_what_its_event_said() {
    let bcs = scripted(|hit| async move {
        if hit.body["method"] == "interaction.resolve" {
            assert_eq!(hit.body["params"]["runId"], "p-run");
            assert_eq!(hit.body["params"]["kind"], "ask_user");
            return super::provider::ack();
        }
        let ask = json!({"phase": "requested", "interactionId": "i", "kind": "ask_user", "questions": [{"questionId": "q", "question": "?"}]});
        sse_open(vec![frame("interaction", 1, ask)])
    })
    .await;
    let mut run = bcs.send("b", "s", "t").id("r").await.unwrap().sse().unwrap();
    run.until(|event| event.name == "interaction").await.unwrap();
    bcs.resolve("b", "s", "r", "i").answers(json!({"q": {"values": ["v"]}})).await.unwrap().accepted().unwrap();
    bcs.assert_clean().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once() {
    let bcs = scripted(|_| async { sse(vec![delta(1, "a"), last(2, "ab")]) }).await;
    let sends = (0..256).map(|n| {
        let bcs = bcs.clone();
        tokio::spawn(async move {
            bcs.send("b", &format!("s{n}"), "t").await.unwrap().sse().unwrap().collect().await.unwrap()
        })
    });
    for run in futures_util::future::join_all(sends).await {
        assert_eq!(run.unwrap().text(), "ab");
    }
    assert_eq!(bcs.runs().len(), 256);
    bcs.assert_clean().unwrap();
}
