//! What goes out is what the real server sends.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::Bcs;
use super::provider::{Hit, ack, last, scripted, sse};
use crate::wire::headers::ProtocolVersion::V1;

type Hits = Arc<Mutex<Vec<Hit>>>;

async fn recording() -> (Bcs, Hits) {
    let hits = Hits::default();
    let store = hits.clone();
    let bcs = scripted(move |hit| {
        let wants_sse = hit.header("accept").unwrap().contains("event-stream");
        store.lock().unwrap().push(hit);
        async move { if wants_sse { sse(vec![last(1, "x")]) } else { ack() } }
    })
    .await;
    (bcs, hits)
}

fn only(hits: &Hits) -> Hit {
    let mut hits = hits.lock().unwrap();
    assert_eq!(hits.len(), 1);
    hits.remove(0)
}

#[tokio::test]
async fn the_headers_of_every_case() {
    let (bcs, hits) = recording().await;
    let token = format!("Bearer {}", bcs.options().b2p_token.reveal());
    let (both, one) = (Some("text/event-stream, application/json"), Some("application/json"));

    bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
    let hit = only(&hits);
    assert_eq!(hit.version, http::Version::HTTP_2);
    assert_eq!((hit.header("accept"), hit.header("x-bcn-transport")), (both, Some("sse")));
    assert_eq!(hit.header("authorization"), Some(token.as_str()));
    assert_eq!(hit.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(hit.header("x-bcn-protocol-version"), Some("2.0"));
    assert_eq!(hit.header("x-bcn-message-id").unwrap().len(), 36);
    let sent: u64 = hit.header("x-bcn-timestamp").unwrap().parse().unwrap();
    assert!(super::super::unix_ms() - sent < 10_000);
    for absent in ["accept-encoding", "user-agent", "x-bcn-provider-id", "x-bcn-event-id", "transfer-encoding"] {
        assert_eq!(hit.header(absent), None, "{absent}");
    }

    bcs.send("b", "s", "t").http1().await.unwrap().sse().unwrap().collect().await.unwrap();
    assert_eq!(only(&hits).version, http::Version::HTTP_11);

    bcs.send("b", "s", "t").callback().await.unwrap().acked().unwrap();
    let hit = only(&hits);
    assert_eq!(hit.version, http::Version::HTTP_11);
    assert_eq!((hit.header("accept"), hit.header("x-bcn-transport")), (one, Some("callback")));

    bcs.send("b", "s", "t").version(V1).await.unwrap().acked().unwrap();
    let hit = only(&hits);
    assert_eq!((hit.header("accept"), hit.header("x-bcn-transport")), (one, None));
    assert_eq!(hit.header("x-bcn-protocol-version"), Some("1.0"));

    bcs.inject("b", "s", "t").http2().await.unwrap().accepted().unwrap();
    let hit = only(&hits);
    assert_eq!(hit.version, http::Version::HTTP_2);
    assert_eq!((hit.header("accept"), hit.header("x-bcn-transport")), (one, Some("callback")));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn the_bodies() {
    let (bcs, hits) = recording().await;
    let request = bcs.send("b", "s", "hi").callback().tags(&["x"]).from(json!({"kind": "bot", "name": "n"}));
    request.clone().await.unwrap().acked().unwrap();
    request.await.unwrap().acked().unwrap();
    let (first, second) = {
        let mut hits = hits.lock().unwrap();
        (hits.remove(0), hits.remove(0))
    };
    assert_eq!(first.raw, second.raw, "a clone is a repetition");
    assert_ne!(first.header("x-bcn-message-id"), second.header("x-bcn-message-id"));
    let mut body = first.body;
    assert!(body["message"]["timestamp"].is_u64());
    body["message"]["timestamp"] = 0.into();
    body["id"] = Value::Null;
    let expected = json!({
        "type": "req", "id": null, "method": "chat.send", "session_id": "s", "bcn_group_id": "s",
        "to_bot": {"provider_id": bcs.options().provider_id, "provider_bot_ref": "b", "tags": ["x"]},
        "from": {"kind": "bot", "name": "n"},
        "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0},
        "timeout_ms": 7_200_000,
    });
    assert_eq!(body, expected);

    bcs.resolve("b", "s", "run-1", "i-1")
        .decision("allow")
        .param("idempotencyKey", "k")
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let params = &only(&hits).body["params"];
    let expected = json!({"bcsRunId": "run-1", "runId": "run-1", "interactionId": "i-1", "kind": "exec",
        "idempotencyKey": "k", "decision": "allow"});
    assert_eq!(*params, expected);

    bcs.ping("").await.unwrap().accepted().unwrap();
    assert_eq!(only(&hits).body["to_bot"], json!({"provider_id": bcs.options().provider_id}));
}

#[tokio::test]
async fn departures_on_purpose() {
    let (bcs, hits) = recording().await;
    let request = bcs.inject("b", "s", "t").header("Authorization", "Bearer other").without_header("x-bcn-timestamp");
    request.raw_body("{not json").await.unwrap().accepted().unwrap();
    let hit = only(&hits);
    assert_eq!(hit.header("authorization"), Some("Bearer other"));
    assert_eq!(hit.header("x-bcn-timestamp"), None);
    assert_eq!(&hit.raw[..], b"{not json");

    let request = bcs.inject("b", "s", "t").without_field("message").field("extra", 1).provider_id("other");
    request.await.unwrap().accepted().unwrap();
    let body = only(&hits).body;
    assert_eq!(
        (&body["message"], &body["extra"], &body["to_bot"]["provider_id"]),
        (&Value::Null, &json!(1), &json!("other"))
    );

    assert!(bcs.inject("b", "s", "t").header("x-a", "a\nb").await.is_err());
    assert!(hits.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_webhook_and_without_a_provider() {
    use super::super::{Phase, SimError};
    let bcs = Bcs::start(super::options()).await.unwrap();
    assert_eq!(bcs.ping("").await.unwrap_err(), SimError::NotConnected);
    bcs.connect("http://127.0.0.1:9/webhook");
    let request = bcs.send("b", "s", "t").id("r");
    assert!(matches!(request.await, Err(SimError::Transport(_))));
    assert_eq!(bcs.run("r").unwrap().phase, Phase::Unknown);
}
