//! JSON answers: each departure is found.

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};

use super::super::ViolationKind::{self, *};
use super::super::{Bcs, Outcome, Phase, Reply};
use super::kinds;
use super::provider::{ack, json as answer, last, scripted, sse};

async fn answering(status: u16, body: Value) -> Bcs {
    scripted(move |_| {
        let body = body.clone();
        async move { answer(status, &body) }
    })
    .await
}

#[tokio::test]
async fn what_cannot_be_decoded() {
    let cases: [(Value, ViolationKind); 7] = [
        (json!({"ok": false, "error": {"code": "conflict"}}), AckErrorObject),
        (json!({"ok": true, "error": {}}), AckErrorObject),
        (json!({"ok": true, "error": 1}), AckShape),
        (json!({"ok": "yes"}), AckShape),
        (json!({"ok": true, "retryable": 1}), AckShape),
        (json!({}), AckShape),
        (json!([]), AckShape),
    ];
    for (body, kind) in cases {
        let bcs = answering(200, body.clone()).await;
        bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap_err();
        assert_eq!(kinds(&bcs), [kind], "{body}");
        assert_eq!(bcs.run("r").unwrap().phase, Phase::Refused);
        assert!(matches!(bcs.inject("b", "s", "t").await.unwrap(), Reply::Undecodable { .. }), "{body}");
    }
}

#[tokio::test]
async fn refusals() {
    let good = json!({"ok": false, "error": {"code": "rate_limited", "message": "later", "retryable": true, "retry_after_ms": 5}});
    let bcs = answering(429, good).await;
    let refusal = bcs.send("b", "s", "t").await.unwrap().refused().unwrap();
    assert_eq!((refusal.meta.status, refusal.error.code.as_str()), (429, "rate_limited"));
    assert_eq!((refusal.retryable, refusal.error.retry_after_ms), (Some(true), Some(5)));
    bcs.assert_clean().unwrap();

    let bcs = answering(200, json!({"ok": false, "error": "no", "retryable": false})).await;
    let refusal = bcs.inject("b", "s", "t").await.unwrap().refused().unwrap();
    assert_eq!((refusal.error.message.as_str(), refusal.retryable), ("no", Some(false)));
    assert_eq!(kinds(&bcs), [RefusedUnder2xx]);
    let bcs = answering(200, json!({"ok": false, "error": "no", "retryable": false})).await;
    assert_eq!(bcs.resolve("b", "s", "r", "i").await.unwrap().refused().unwrap().retryable, Some(false));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn what_is_around_the_body() {
    let with = |status: u16, name: &'static str, value: &'static str| {
        scripted(move |_| async move {
            let mut response = Response::builder().status(status).header("content-type", "application/json");
            if name == "content-type" {
                response = Response::builder().status(status);
            }
            response.header(name, value).body(Body::from(r#"{"ok":true}"#)).unwrap()
        })
    };
    let bcs = with(200, "content-type", "text/plain").await;
    bcs.inject("b", "s", "t").await.unwrap().accepted().unwrap();
    assert_eq!(kinds(&bcs), [AnswerContentType]);

    let bcs = with(200, "content-encoding", "gzip").await;
    bcs.inject("b", "s", "t").await.unwrap().accepted().unwrap();
    assert_eq!(kinds(&bcs), [ContentEncoding]);

    let bcs = with(307, "location", "http://127.0.0.1:9/").await;
    bcs.inject("b", "s", "t").await.unwrap().refused().unwrap();
    assert!(kinds(&bcs).contains(&Redirected));

    let bcs = scripted(|_| async { sse(vec![last(1, "x")]) }).await;
    bcs.send("b", "s", "t").callback().await.unwrap().acked().unwrap_err();
    assert_eq!(kinds(&bcs), [SseNotAsked]);
    let bcs = scripted(|_| async { sse(vec![last(1, "x")]) }).await;
    let v1 = crate::wire::headers::ProtocolVersion::V1;
    bcs.send("b", "s", "t").version(v1).await.unwrap().sse().unwrap_err();
    assert_eq!(kinds(&bcs), [SseNotAsked]);
}

#[tokio::test]
async fn a_slow_answer_is_given_up() {
    let ms = std::time::Duration::from_millis;
    let options = super::super::BcsOptions { headers_timeout: ms(50), ..super::options() };
    let bcs = super::provider::scripted_with(options, |_, _| Box::pin(std::future::pending())).await;
    bcs.send("b", "s", "t").id("r").await.unwrap_err();
    assert_eq!(kinds(&bcs), [SlowHeaders]);
    assert_eq!(bcs.run("r").unwrap().phase, Phase::Unknown);
}

#[tokio::test]
async fn aborts() {
    let bcs = scripted(|hit| async move {
        let ids =
            |aborted: bool, ids: Value| answer(200, &json!({"ok": true, "aborted": aborted, "aborted_run_ids": ids}));
        match hit.body["method"].as_str().unwrap() {
            "chat.send" => ack(),
            _ => match hit.body["session_id"].as_str().unwrap() {
                "s" => ids(true, json!(["r"])),
                "other" => ids(true, json!(["r"])),
                "none" => ids(false, json!([])),
                "contrary" => ids(true, json!([])),
                _ => answer(200, &json!({"ok": true})),
            },
        }
    })
    .await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    assert!(!bcs.abort("b", "none").await.unwrap().accepted().unwrap().aborted);
    assert_eq!(bcs.abort("b", "s").await.unwrap().accepted().unwrap().run_ids, ["r"]);
    assert_eq!(bcs.outcome("r").await.unwrap(), Outcome::Aborted { stop_reason: None });
    bcs.assert_clean().unwrap();
    for (session, kind) in [("other", ScopeMismatch), ("contrary", AbortShape), ("bare", AbortShape)] {
        bcs.abort("b", session).await.unwrap().accepted().unwrap();
        assert_eq!(kinds(&bcs), [kind], "{session}");
        let _ = bcs.take_violations();
    }
}

#[tokio::test]
async fn an_abort_of_a_run_that_had_replied() {
    let bcs = scripted(|hit| async move {
        match hit.body["method"].as_str().unwrap() {
            "chat.send" => sse(vec![last(1, "x")]),
            _ => answer(200, &json!({"ok": true, "aborted": true, "aborted_run_ids": ["r"]})),
        }
    })
    .await;
    bcs.send("b", "s", "t").id("r").await.unwrap().sse().unwrap().collect().await.unwrap();
    bcs.abort("b", "s").await.unwrap().accepted().unwrap();
    assert_eq!(kinds(&bcs), [OutcomeDiffers]);
}

#[tokio::test]
async fn histories() {
    let message = |id: &str, time: u64| json!({"id": id, "role": "user", "content": "t", "timestamp": time});
    let page =
        |messages: Value, next: Value| json!({"ok": true, "messages": messages, "has_more": true, "next_before": next});
    let good = page(json!([message("b", 8), message("a", 7)]), json!(7));
    let bcs = answering(200, good).await;
    let answer = bcs.history("b", "s").before(9).limit(2).await.unwrap().accepted().unwrap();
    assert_eq!((answer.texts(), answer.next_before), (vec!["t".to_owned(), "t".to_owned()], Some(7)));
    bcs.assert_clean().unwrap();

    let bad = [
        page(json!([message("b", 9), message("a", 7)]), json!(7)),
        page(json!([message("b", 8), message("b", 7)]), json!(7)),
        page(json!([message("b", 8), message("a", 7)]), json!(8)),
        page(json!([message("b", 8), message("a", 7), message("c", 6)]), json!(6)),
        page(json!([{"id": "a", "content": "t", "timestamp": 7}]), json!(7)),
        page(json!([{"id": "a", "role": "user", "timestamp": 7}]), json!(7)),
        page(json!([{"id": "a", "role": "user", "content": [], "timestamp": -1}]), json!(null)),
        page(json!("none"), json!(null)),
        json!({"ok": true, "messages": []}),
        json!({"ok": true, "messages": [], "has_more": false, "session_id": "other"}),
        json!({"ok": true, "messages": [], "has_more": false, "next_after": "x"}),
    ];
    for body in bad {
        let bcs = answering(200, body.clone()).await;
        bcs.history("b", "s").before(9).limit(2).await.unwrap().accepted().unwrap();
        assert_eq!(kinds(&bcs), [HistoryShape], "{body}");
    }
}

#[tokio::test]
async fn raw_requests() {
    let envelope =
        json!({"ok": false, "error": {"code": "invalid_request", "message": "no such path", "retryable": false}});
    let bcs = answering(404, envelope).await;
    let answer = bcs.raw(http::Method::GET, "/nowhere", http::HeaderMap::new(), "").await.unwrap();
    assert_eq!(answer.refused().unwrap().error.code, "invalid_request");
    let bcs = answering(404, json!("not found")).await;
    let answer = bcs.raw(http::Method::GET, "", http::HeaderMap::new(), "").await.unwrap();
    assert_eq!(answer.meta.status, 404);
    answer.refused().unwrap_err();
}
