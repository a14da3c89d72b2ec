//! Callbacks: the real server's answers, and what is noted.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{AuthMode, Bcs, BcsOptions, Outcome, Phase, ViolationKind::*};
use super::provider::{Post, ack, connect, json as answer, legacy, scripted, scripted_with, sse_open};
use super::{kinds, options};
use crate::wire::Secret;
use crate::wire::headers::ProtocolVersion::V1;

/// A server with one run `r` that waits for callbacks.
async fn acked() -> Bcs {
    let bcs = scripted(|_| async { ack() }).await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    bcs
}

fn streaming(run_id: &str, event: &str, payload: Value) -> Value {
    json!({"run_id": run_id, "event": event, "payload": payload})
}

#[tokio::test]
async fn a_final_in_both_forms() {
    let bcs = acked().await;
    let post = Post::new(&bcs, legacy("r", "final", "done"));
    let (status, body) = post.send(&bcs).await.unwrap();
    assert_eq!((status, body.as_str()), (200, r#"{"ok":true,"delivered_count":1,"failed_count":0}"#));
    assert_eq!(bcs.outcome("r").await.unwrap().text(), Some("done"));
    let callbacks = bcs.callbacks("r");
    assert_eq!((callbacks.len(), callbacks[0].ingested, callbacks[0].event_id.clone()), (1, true, post.event_id));
    assert!(!format!("{callbacks:?}").contains(bcs.options().bot_runtime_token.as_ref().unwrap().reveal()));

    let bcs = acked().await;
    for payload in [json!({"state": "delta", "deltaText": "a"}), json!({"delta_text": "b"}), json!({"state": "final"})]
    {
        assert_eq!(Post::new(&bcs, streaming("r", "chat", payload)).status(&bcs).await, Some(200));
    }
    assert_eq!(bcs.outcome("r").await.unwrap().text(), Some("ab"));
    bcs.assert_clean().unwrap();

    bcs.send("b", "s", "t").version(V1).id("one").await.unwrap().acked().unwrap();
    let post = Post { version: "1.0", ..Post::new(&bcs, legacy("one", "error", "why")) };
    assert_eq!(post.status(&bcs).await, Some(200));
    assert_eq!(bcs.outcome("one").await.unwrap(), Outcome::Error { message: "why".into(), kind: None });
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn every_refusal() {
    let right = |body: Value| move |bcs: &Bcs| Post::new(bcs, body.clone());
    type Make = Box<dyn Fn(&Bcs) -> Post>;
    let final_ = legacy("r", "final", "x");
    let cases: Vec<(Make, u16, &str, _)> = vec![
        (Box::new(right(legacy("r", "delta", "x"))), 400, "invalid_request", CallbackState),
        (Box::new(right(legacy("r", "failed", "x"))), 422, "", CallbackShape),
        (Box::new(right(json!({"run_id": "r"}))), 400, "invalid_request", CallbackShape),
        (Box::new(right(json!({"run_id": "", "state": "final"}))), 400, "invalid_request", CallbackShape),
        (Box::new(right(json!({"state": "final"}))), 422, "", CallbackShape),
        (Box::new(right(streaming("r", "ping", json!({})))), 400, "invalid_request", CallbackShape),
        (Box::new(right(legacy("other", "final", "x"))), 404, "run_not_found", CallbackUnknownRun),
        (Box::new(right(legacy("r", "final", &"x".repeat(3 << 20)))), 400, "", CallbackTooLarge),
        (header(&final_, "content-type", "text/plain"), 415, "", CallbackContentType),
        (header(&final_, "x-bcn-provider-id", ""), 400, "invalid_request", CallbackAuth),
        (header(&final_, "x-bcn-provider-id", "else"), 403, "provider_id_mismatch", CallbackAuth),
        (header(&final_, "x-bcn-timestamp", ""), 200, "", CallbackHeader),
        (header(&final_, "x-bcn-timestamp", "1000"), 200, "", CallbackHeader),
        (header(&final_, "x-bcn-timestamp", "soon"), 200, "", CallbackHeader),
        (header(&final_, "x-bcn-provider-bot-ref", "other"), 200, "", CallbackHeader),
        (changed(&final_, |post, _| post.event_id.clear()), 200, "", CallbackHeader),
        (changed(&final_, |post, _| post.version = "1.0"), 200, "", CallbackHeader),
        (changed(&final_, |post, _| post.token = "unknown".into()), 401, "unauthorized", CallbackAuth),
        (changed(&final_, |post, _| post.token = "a.b.c".into()), 401, "auth_mode_mismatch", CallbackAuth),
        (
            changed(&final_, |post, bcs| post.token = bcs.options().provider_admin_token.reveal().into()),
            401,
            "auth_mode_mismatch",
            CallbackAuth,
        ),
    ];
    for (make, status, code, kind) in cases {
        let bcs = acked().await;
        let post = make(&bcs);
        let shown: String = post.body.to_string().chars().take(100).collect();
        let (got, body) = post.send(&bcs).await.unwrap();
        assert_eq!(got, status, "{shown} {body}");
        assert_eq!(kinds(&bcs), [kind], "{shown}");
        if !code.is_empty() {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&body["error"], &body["status"]), (&json!(code), &json!(status)), "{shown}");
            assert!(body["message"].is_string());
        }
        assert_eq!(bcs.run("r").unwrap().outcome.is_some(), status == 200, "{shown}");
    }

    fn header(body: &Value, name: &'static str, value: &'static str) -> Make {
        let body = body.clone();
        Box::new(move |bcs| Post::new(bcs, body.clone()).header(name, value))
    }

    fn changed(body: &Value, change: impl Fn(&mut Post, &Bcs) + 'static) -> Make {
        let body = body.clone();
        Box::new(move |bcs| {
            let mut post = Post::new(bcs, body.clone());
            change(&mut post, bcs);
            post
        })
    }
}

#[tokio::test]
async fn the_token_of_another_bot_and_the_admin_token() {
    let mut tokens = options();
    tokens.bot_runtime_tokens.insert("other".into(), Secret::new("rt-other"));
    let bcs = scripted_with(tokens, |_, _| Box::pin(async { ack() })).await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    let post = Post { token: "rt-other".into(), ..Post::new(&bcs, legacy("r", "final", "x")) };
    let (status, body) = post.send(&bcs).await.unwrap();
    assert_eq!((status, body.contains("\"forbidden\"")), (403, true));
    assert_eq!(kinds(&bcs), [CallbackAuth]);

    let admin = BcsOptions { auth_mode: AuthMode::ProviderAdmin, ..options() };
    let bcs = scripted_with(admin, |_, _| Box::pin(async { ack() })).await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    let token = bcs.options().provider_admin_token.reveal().to_owned();
    let post = || Post { token: token.clone(), ..Post::new(&bcs, legacy("r", "final", "x")) };
    assert_eq!(Post::new(&bcs, legacy("r", "final", "x")).status(&bcs).await, Some(401));
    assert_eq!(post().status(&bcs).await, Some(400));
    let _ = bcs.take_violations();
    assert_eq!(post().header("x-bcn-provider-bot-ref", "c").status(&bcs).await, Some(403));
    assert_eq!(kinds(&bcs), [CallbackHeader, CallbackAuth, EventIdChanged]);
    let _ = bcs.take_violations();
    let mut right = Post { body: legacy("r", "final", "y"), ..post() };
    right = right.header("x-bcn-provider-bot-ref", "b");
    assert_eq!(right.status(&bcs).await, Some(200));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn before_the_acknowledgement() {
    let bcs = scripted_with(options(), |bcs, hit| {
        Box::pin(async move {
            let version = if hit.header("x-bcn-protocol-version") == Some("1.0") { "1.0" } else { "2.0" };
            let post = Post { version, ..Post::new(&bcs, legacy(&hit.id(), "final", "x")) };
            let status = post.status(&bcs).await.unwrap();
            answer(200, &json!({"ok": true, "callback": status}))
        })
    })
    .await;
    let ack = bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    assert_eq!(ack.body["callback"], 409);
    assert_eq!(kinds(&bcs), [CallbackBeforeAck]);
    assert!(bcs.callbacks("r")[0].early);
    assert_eq!(bcs.run("r").unwrap().outcome, None);
    let _ = bcs.take_violations();
    // Runs of protocol 1.0 are not in the table of transports: accepted, and too early all the same.
    let ack = bcs.send("b", "s", "t").version(V1).await.unwrap().acked().unwrap();
    assert_eq!(ack.body["callback"], 200);
    assert_eq!(kinds(&bcs), [CallbackBeforeAck]);
}

#[tokio::test]
async fn an_acknowledgement_that_is_read_late_is_no_violation() {
    let slow = BcsOptions { ack_grace: Duration::from_secs(20), ..options() };
    let bcs = scripted_with(slow, |bcs, hit| {
        Box::pin(async move {
            // The callback is on its way while the acknowledgement is, as if that one had been overtaken.
            let post = Post::new(&bcs, legacy(&hit.id(), "final", "x"));
            let id = hit.id();
            tokio::spawn({
                let bcs = bcs.clone();
                async move { post.status(&bcs).await }
            });
            while bcs.all_callbacks().iter().all(|callback| callback.run_id != id) {
                tokio::task::yield_now().await;
            }
            ack()
        })
    })
    .await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    let callbacks = bcs.wait_callbacks("r", 1).await.unwrap();
    assert!(callbacks[0].early && !callbacks[0].ingested);
    bcs.assert_clean().unwrap();
    // The retry is taken.
    let retry = Post { event_id: callbacks[0].event_id.clone(), ..Post::new(&bcs, legacy("r", "final", "x")) };
    assert_eq!(retry.status(&bcs).await, Some(200));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn on_a_run_that_streams() {
    let bcs = scripted(|_| async { sse_open(Vec::new()) }).await;
    let _run = bcs.send("b", "s", "t").id("r").await.unwrap().sse().unwrap();
    // The binding is checked before the token.
    let post = Post { token: "unknown".into(), ..Post::new(&bcs, legacy("r", "final", "x")) };
    let (status, body) = post.send(&bcs).await.unwrap();
    assert_eq!((status, body.contains("transport_conflict")), (409, true));
    assert_eq!(kinds(&bcs), [CallbackOnSse]);
}

#[tokio::test]
async fn after_the_end() {
    let bcs = acked().await;
    let post = Post::new(&bcs, legacy("r", "final", "x"));
    assert_eq!(post.status(&bcs).await, Some(200));
    assert_eq!(post.status(&bcs).await, Some(410));
    assert_eq!(kinds(&bcs), [CallbackRepeated]);
    assert_eq!(post.status(&bcs).await, Some(410));
    assert_eq!(kinds(&bcs), [CallbackRepeated, CallbackRetried]);
    let _ = bcs.take_violations();
    assert_eq!(Post::new(&bcs, legacy("r", "final", "y")).status(&bcs).await, Some(410));
    assert_eq!(kinds(&bcs), [CallbackAfterTerminal]);
    let _ = bcs.take_violations();
    // A Provider that has been restarted may not know that its predecessor had got the answer.
    connect(&bcs, |_, _| Box::pin(async { ack() })).await;
    assert_eq!(post.status(&bcs).await, Some(410));
    bcs.assert_clean().unwrap();
    assert_eq!(bcs.outcome("r").await.unwrap().text(), Some("x"));
}

#[tokio::test]
async fn event_ids() {
    let bcs = acked().await;
    let post = Post::new(&bcs, legacy("other", "final", "x"));
    assert_eq!(post.status(&bcs).await, Some(404));
    let _ = bcs.take_violations();
    let other = Post { event_id: post.event_id.clone(), ..Post::new(&bcs, legacy("r", "final", "x")) };
    assert_eq!(other.status(&bcs).await, Some(200));
    assert_eq!(kinds(&bcs), [EventIdReused]);
    let _ = bcs.take_violations();
    assert_eq!(Post::new(&bcs, legacy("r", "final", "x")).status(&bcs).await, Some(410));
    assert_eq!(kinds(&bcs), [EventIdChanged]);
}

#[tokio::test]
async fn an_aborted_run_may_still_say_so_but_nothing_else() {
    for (state, expected) in [("aborted", vec![]), ("final", vec![OutcomeDiffers])] {
        let bcs = scripted(|hit| async move {
            match hit.body["method"].as_str().unwrap() {
                "chat.send" => ack(),
                _ => answer(200, &json!({"ok": true, "aborted": true, "aborted_run_ids": ["r"]})),
            }
        })
        .await;
        bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
        bcs.abort("b", "s").await.unwrap().accepted().unwrap();
        assert_eq!(Post::new(&bcs, legacy("r", state, "")).status(&bcs).await, Some(410));
        assert_eq!(kinds(&bcs), expected, "{state}");
    }
}

#[tokio::test]
async fn past_the_deadline_and_after_a_lost_acknowledgement() {
    let bcs = scripted(|_| async { ack() }).await;
    bcs.send("b", "s", "t").callback().timeout_ms(0).id("r").await.unwrap().acked().unwrap();
    assert_eq!(Post::new(&bcs, legacy("r", "error", "too late")).status(&bcs).await, Some(410));
    assert_eq!(bcs.outcome("r").await.unwrap(), Outcome::Error { message: "too late".into(), kind: None });
    bcs.assert_clean().unwrap();

    bcs.connect("http://127.0.0.1:9/");
    bcs.send("b", "s", "t").callback().id("lost").await.unwrap_err();
    assert_eq!(bcs.run("lost").unwrap().phase, Phase::Unknown);
    assert_eq!(Post::new(&bcs, legacy("lost", "final", "x")).status(&bcs).await, Some(200));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_refused_run_is_unknown() {
    let envelope = json!({"ok": false, "error": {"code": "unavailable", "message": "no", "retryable": true}});
    let bcs = scripted(move |_| {
        let envelope = envelope.clone();
        async move { answer(503, &envelope) }
    })
    .await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().refused().unwrap();
    assert_eq!(Post::new(&bcs, legacy("r", "final", "x")).status(&bcs).await, Some(404));
    assert_eq!(kinds(&bcs), [CallbackUnknownRun]);
}
